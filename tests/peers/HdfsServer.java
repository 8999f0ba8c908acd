// One name node and one data node of Hadoop's file system, for tests.
//
//   java -cp JARS HdfsServer.java DIRECTORY
//
// Prints `port N` once it answers, and ends with its standard input.

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.server.namenode.EditLogFileOutputStream;

public class HdfsServer {

  public static void main(String[] args) throws Exception {
    Configuration settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
    settings.set("dfs.namenode.fs-limits.min-block-size", "1024");
    settings.set("dfs.permissions.enabled", "false");
    EditLogFileOutputStream.setShouldSkipFsyncForTesting(true);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
    cluster.waitActive();
    System.out.println("port " + cluster.getNameNodePort());
    System.out.flush();
    while (System.in.read() >= 0) {}
    cluster.shutdown(true);
  }
}
