// Fetches the URLs of standard input with HttpURLConnection; each line is a port of the proxy,
// a list and a URL, the latter two in percent encoding, split by blanks.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URL;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

public class Probe {
    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", 3);
            for (String scheme : new String[] {"http", "https"}) {
                System.setProperty(scheme + ".proxyHost", "127.0.0.1");
                System.setProperty(scheme + ".proxyPort", parts[0]);
            }
            System.setProperty("http.nonProxyHosts", URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
            var connection = (HttpURLConnection) new URL(URLDecoder.decode(parts[2], StandardCharsets.UTF_8)).openConnection();
            connection.setConnectTimeout(5000);
            connection.setReadTimeout(5000);
            try {
                connection.getResponseCode();
            } catch (IOException refused) {
                // the recorder knows whether the proxy was asked
            } finally {
                connection.disconnect();
            }
        }
    }
}
