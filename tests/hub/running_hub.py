"""local_hub.py as a child process."""
import base64
import json
import pathlib
import ssl
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


class RunningHub:
    def __init__(self, certificate=None):
        options = ["--certificate", certificate] if certificate else []
        self.process = subprocess.Popen([sys.executable, HERE / "local_hub.py", *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        urls = json.loads(self.process.stdout.readline())
        self.hub, self.cdn = urls["hub"], urls["cdn"]
        handlers = [urllib.request.ProxyHandler({})]
        if certificate:
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificate)))
        self.open = urllib.request.build_opener(*handlers).open

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with self.open(urllib.request.Request(self.hub + path, data=data, method=method)) as answer:
            return json.load(answer)

    def put(self, repo, files, **properties):
        """A commit of {path: bytes}; returns its id."""
        content = {path: base64.b64encode(data).decode() for path, data in files.items()}
        return self.ask("POST", "/admin/repo", {"id": repo, "files": content, **properties})["commit"]

    def fault(self, **fault):
        self.ask("POST", "/admin/fault", fault)

    def set(self, **settings):
        self.ask("POST", "/admin/set", settings)

    def reset(self):
        self.ask("POST", "/admin/reset", {})

    def log(self):
        return self.ask("GET", "/admin/log")

    def state(self, repo):
        return self.ask("GET", f"/admin/state?repo={repo}")
