// Iceberg's own REST catalog, as its tests run it, over one SQLite file and the local disk.
//
//   java -cp JARS RestServer.java DATABASE WAREHOUSE
//
// Prints `port N` once it answers, and ends with its standard input.

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;

public class RestServer {

  /** Files of the local disk, by path or by file: URI. */
  public static class LocalFiles implements FileIO {
    private static String path(String location) {
      return location.startsWith("file:") ? URI.create(location).getPath() : location;
    }

    @Override
    public InputFile newInputFile(String location) {
      return Files.localInput(path(location));
    }

    @Override
    public OutputFile newOutputFile(String location) {
      File file = new File(path(location));
      file.getParentFile().mkdirs();
      return Files.localOutput(file);
    }

    @Override
    public void deleteFile(String location) {
      new File(path(location)).delete();
    }
  }

  public static void main(String[] args) throws Exception {
    JdbcCatalog catalog = new JdbcCatalog(properties -> new LocalFiles(), null, true);
    catalog.initialize(
        "rest",
        Map.of(
            CatalogProperties.URI, "jdbc:sqlite:" + args[0],
            CatalogProperties.WAREHOUSE_LOCATION, args[1],
            "jdbc.schema-version", "V1"));

    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    context.getServletHandler().setDecodeAmbiguousURIs(true);

    Server server = new Server();
    HttpConfiguration http = new HttpConfiguration();
    http.setUriCompliance(UriCompliance.UNSAFE); // namespaces hold %1F
    ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(http));
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    System.out.println("port " + connector.getLocalPort());
    System.out.flush();
    while (System.in.read() >= 0) {}
    server.stop();
  }
}
