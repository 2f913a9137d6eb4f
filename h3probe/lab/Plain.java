import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/**
 * What was written for Java 11: it sends GET requests one after the other and knows nothing of HTTP/3. It prints the
 * lines that Probe.java prints, and runs on every Java since 11: {@code java Plain.java https://localhost:4433/ 3}.
 */
final class Plain {
    private Plain() {
    }

    public static void main(String[] args) throws InterruptedException {
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).build();
        int count = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        for (int number = 1; number <= count; number++) {
            long start = System.nanoTime();
            String result;
            try {
                HttpResponse<byte[]> response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
                String altSvc = response.headers().firstValue("alt-svc").orElse("-");
                result = response.version() + " " + response.statusCode() + " alt-svc=" + altSvc;
            } catch (IOException e) {
                result = e.getClass().getName() + ": " + e.getMessage();
            }
            long millis = Duration.ofNanos(System.nanoTime() - start).toMillis();
            System.out.println("request " + number + ": " + result + " after " + millis + " ms");
            System.out.flush();
        }
        System.exit(0); // a connection that is kept alive keeps the JVM alive too
    }
}
