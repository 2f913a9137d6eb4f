import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpOption;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Sends GET requests one after the other with one HttpClient, and prints a line for each:
 *
 * <pre>
 * request 1: HTTP_2 200 alt-svc=h3=":4433"; ma=3600 after 123 ms
 * request 2: java.net.http.HttpConnectTimeoutException: quic handshake timeout after 2375 ms
 * </pre>
 *
 * It needs Java 26 and runs from source: {@code java Probe.java https://localhost:4433/ client ANY 4}.
 */
final class Probe {
    private static final String USAGE = """
        usage: java Probe.java URL [WHERE [MODE [COUNT [PROXY_PORT [PAUSE_MS [LINGER_MS]]]]]]
          WHERE       who opts in to HTTP/3: none (default), client, request
          MODE        how HTTP/3 is discovered: - (the default), ANY, ALT_SVC, HTTP_3_URI_ONLY
          COUNT       number of requests (default 1)
          PROXY_PORT  an HTTP proxy on 127.0.0.1; 0 for none (default)
          PAUSE_MS    between two requests; with N@MS only after the Nth
          LINGER_MS   after the last request
        properties:
          -Dprobe.connectTimeout=MS   of the client (default none)
          -Dprobe.clients=N           all requests at once, shared out among N clients, instead of one by one""";

    private Probe() {
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length < 1 || args.length > 7) {
            System.err.println(USAGE);
            System.exit(2);
        }
        URI uri = URI.create(args[0]);
        String where = optional(args, 1, "none");
        String mode = optional(args, 2, "-");
        int count = Integer.parseInt(optional(args, 3, "1"));
        int proxyPort = Integer.parseInt(optional(args, 4, "0"));
        String[] pause = optional(args, 5, "0").split("@");
        long linger = Long.parseLong(optional(args, 6, "0"));

        HttpRequest request = request(uri, where, mode);
        int clients = Integer.getInteger("probe.clients", 0);
        if (clients > 0) {
            sendAtOnce(clients, () -> client(where, proxyPort), request, count);
            Thread.sleep(linger);
            System.exit(0);
        }
        HttpClient client = client(where, proxyPort);
        for (int number = 1; number <= count; number++) {
            long start = System.nanoTime();
            tell(number, send(client, request), start);
            if (number < count && (pause.length == 1 || Integer.parseInt(pause[0]) == number)) {
                Thread.sleep(Long.parseLong(pause[pause.length - 1]));
            }
        }
        Thread.sleep(linger);
        System.exit(0); // a connection that is kept alive keeps the JVM alive too
    }

    private static void tell(int number, String result, long start) {
        long millis = Duration.ofNanos(System.nanoTime() - start).toMillis();
        System.out.println("request " + number + ": " + result + " after " + millis + " ms");
        System.out.flush();
    }

    private static String optional(String[] args, int index, String otherwise) {
        return args.length > index ? args[index] : otherwise;
    }

    private static HttpClient client(String where, int proxyPort) {
        HttpClient.Builder builder = HttpClient.newBuilder();
        if (where.equals("client")) {
            builder.version(HttpClient.Version.HTTP_3);
        }
        if (proxyPort != 0) {
            builder.proxy(ProxySelector.of(new InetSocketAddress("127.0.0.1", proxyPort)));
        }
        if (Integer.getInteger("probe.connectTimeout") != null) {
            builder.connectTimeout(Duration.ofMillis(Integer.getInteger("probe.connectTimeout")));
        }
        return builder.build();
    }

    private static HttpRequest request(URI uri, String where, String mode) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(uri);
        if (where.equals("request")) {
            builder.version(HttpClient.Version.HTTP_3);
        }
        if (!mode.equals("-")) {
            builder.setOption(HttpOption.H3_DISCOVERY, HttpOption.Http3DiscoveryMode.valueOf(mode));
        }
        return builder.build();
    }

    private static String send(HttpClient client, HttpRequest request) throws InterruptedException {
        try {
            return describe(client.send(request, HttpResponse.BodyHandlers.ofByteArray()));
        } catch (IOException e) {
            return describe(e);
        }
    }

    private static void sendAtOnce(int clients, Supplier<HttpClient> make, HttpRequest request, int count) {
        List<HttpClient> all = Stream.generate(make).limit(clients).toList();
        List<CompletableFuture<Void>> pending = new ArrayList<>();
        for (int sent = 0; sent < count; sent++) {
            int number = sent + 1;
            long start = System.nanoTime();
            pending.add(all.get(sent % clients)
                .sendAsync(request, HttpResponse.BodyHandlers.ofByteArray())
                .handle((response, e) -> response != null ? describe(response) : describe(e))
                .thenAccept(result -> tell(number, result, start)));
        }
        pending.forEach(CompletableFuture::join);
    }

    private static String describe(HttpResponse<?> response) {
        String altSvc = response.headers().firstValue("alt-svc").orElse("-");
        return response.version() + " " + response.statusCode() + " alt-svc=" + altSvc;
    }

    private static String describe(Throwable e) {
        Throwable cause = e instanceof CompletionException && e.getCause() != null ? e.getCause() : e;
        return cause.getClass().getName() + ": " + cause.getMessage();
    }
}
