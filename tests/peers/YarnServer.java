// A resource manager and two node managers of Hadoop's YARN, for tests.
//
//   java -cp JARS YarnServer.java DIRECTORY
//
// Writes settings for clients to DIRECTORY/conf, prints `ready` once both nodes are known, and ends
// with its standard input.

import java.io.OutputStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

public class YarnServer {

  private static final String MANAGER = "yarn.resourcemanager.", NODE = "yarn.nodemanager.";
  private static final int NODES = 2;

  public static void main(String[] args) {
    try {
      run(Path.of(args[0]));
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1); // services that did start would go on
    }
    System.exit(0);
  }

  private static void run(Path directory) throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    YarnConfiguration settings = new YarnConfiguration();
    String scheduler = ResourceManager.class.getPackageName() + ".scheduler.fifo.FifoScheduler";
    settings.set(MANAGER + "scheduler.class", scheduler);
    settings.set("yarn.scheduler.minimum-allocation-mb", "128");
    for (String service : new String[] {"", "scheduler.", "resource-tracker.", "admin.", "webapp."}) {
      settings.set(MANAGER + service + "address", freeAddress());
    }
    ResourceManager manager = new ResourceManager();
    manager.init(settings);
    manager.start();
    for (int number = 0; number < NODES; number++) {
      NodeManager node = new NodeManager();
      node.init(nodeSettings(settings, directory.resolve("node-" + number)));
      node.start();
    }
    while (manager.getResourceScheduler().getNumClusterNodes() < NODES) {
      Thread.sleep(100);
    }
    Path folder = Files.createDirectories(directory.resolve("conf"));
    try (OutputStream out = Files.newOutputStream(folder.resolve("yarn-site.xml"))) {
      settings.writeXml(out);
    }
    System.out.println("ready");
    System.out.flush();
    while (System.in.read() >= 0) {}
  }

  private static YarnConfiguration nodeSettings(YarnConfiguration settings, Path folder) {
    YarnConfiguration found = new YarnConfiguration(settings);
    for (String service : new String[] {"", "localizer.", "webapp.", "collector-service."}) {
      found.set(NODE + service + "address", "127.0.0.1:0");
    }
    found.set(NODE + "local-dirs", folder.resolve("local").toString());
    found.set(NODE + "log-dirs", folder.resolve("logs").toString());
    found.set(NODE + "resource.memory-mb", "3072");
    found.set(NODE + "pmem-check-enabled", "false");
    found.set(NODE + "vmem-check-enabled", "false");
    found.set(NODE + "disk-health-checker.enable", "false");
    found.set(NODE + "delete.debug-delay-sec", "600"); // what containers have written stays
    return found;
  }

  private static String freeAddress() throws Exception {
    try (ServerSocket socket = new ServerSocket(0)) {
      return "127.0.0.1:" + socket.getLocalPort();
    }
  }
}
