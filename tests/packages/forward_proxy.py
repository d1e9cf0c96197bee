"""A small forward proxy on 127.0.0.1: absolute URLs for http, CONNECT for everything else."""
import base64
import select
import socket
import threading


class ForwardProxy:
    """Reaches the names in `names` ({"hub.test": port}) on this machine, and addresses of this machine as they are.

    `asked` has each request line with the head's lines in lower case: [(line, {name: value})].
    """

    def __init__(self, names, password=None):
        self.names, self.password, self.asked = names, password, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        user = f"{self.password}@" if self.password else ""
        return f"http://{user}127.0.0.1:{self.port}"

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def hosts(self):
        """Whom it was asked for."""
        return {line.split()[1].removeprefix("http://").split("/")[0].split(":")[0] for line, _ in self.asked}

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            head, body = head.split(b"\r\n\r\n", 1)
            line, *fields = head.decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, value in (field.split(":", 1) for field in fields)}
            self.asked.append((line, headers))
            expected = "Basic " + base64.b64encode((self.password or "").encode()).decode()
            if self.password and headers.get("proxy-authorization") != expected:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"p\"\r\n"
                               b"Content-Length: 0\r\nConnection: close\r\n\r\n")
                return
            method, target, version = line.split()
            if method == "CONNECT":
                name, path = target, ""
            else:
                name, slash, path = target.removeprefix("http://").partition("/")
                path = slash + path or "/"
            host, _, port = name.partition(":")
            with socket.create_connection(("127.0.0.1", self.names.get(host) or int(port))) as server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    kept = [field for field in fields if not field.lower().startswith(("proxy-", "connection:"))]
                    lines = [f"{method} {path} {version}", *kept, "Connection: close"]
                    server.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
                self.pump(client, server)

    @staticmethod
    def pump(client, server):
        other = {client: server, server: client}
        while True:
            for ready in select.select(list(other), [], [])[0]:
                try:
                    piece = ready.recv(65536)
                    if not piece:
                        return
                    other[ready].sendall(piece)
                except OSError:
                    return
