#!/usr/bin/env python3
"""A hub on 127.0.0.1 that speaks the protocol of the Hugging Face hub, for tests. Keeps everything in memory.

  local_hub.py [FOLDER] [--certificate FILE]

Every FOLDER/org/name becomes a repository with one commit. Prints one line of JSON, {"hub": URL, "cdn": URL}, and serves
until its standard input ends. Large files lie on the second URL, another host and port, which refuses requests that
carry a token. With a certificate (and its key in the same file) both speak HTTPS. Tokens: hf_write (user "writer") and hf_read (user "reader").

POST /admin/repo    {"id", "files": {path: base64}, "private", "gated", "granted": [users], "tags", "card"}: a commit
POST /admin/set     {"page": files per page of a tree, "part": bytes per part of an upload, "lfs": bytes from which on
                    files are large, "hub", "cdn": the URLs that it calls itself by}
POST /admin/fault   {"match": regular expression over "METHOD /path", "kind", "times", "skip", ...}, for answers:
                    cut (closes after "after" bytes), wrong (flips the byte at "after"), stall (waits "seconds" after
                    "after" bytes), slow ("rate" bytes a second), status ("status", "headers"), whole (no ranges;
                    "also": "whole" for the others), lost (does it and closes without an answer)
POST /admin/reset   forgets faults and the log
GET  /admin/log     every request: {"method", "path", "host", "authorized", "range", "bytes"}
GET  /admin/state?repo=ID   {"commit", "commits", "private", "files": {path: {"sha256", "size", "lfs"}}}
"""
import argparse
import base64
import hashlib
import http.server
import json
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse

USERS = {"hf_write": {"name": "writer", "orgs": ["org", "acme"], "role": "write"},
         "hf_read": {"name": "reader", "orgs": [], "role": "read"}}
COMMIT = re.compile(r"[0-9a-f]{40}")
PIECE = 64 << 10


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class File:
    """One content in a repository."""

    def __init__(self, content, lfs):
        self.content = content
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.lfs = lfs
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(content)}\n"
        self.pointer_size = len(pointer)
        self.blob_id = git_blob(pointer.encode() if lfs else content)

    def entry(self, path):
        entry = {"type": "file", "path": path, "size": len(self.content), "oid": self.blob_id}
        if self.lfs:
            entry["lfs"] = {"oid": self.sha256, "size": len(self.content), "pointerSize": self.pointer_size}
        return entry


def tags_of(card):
    """The tags in the front matter of a README.md."""
    front = re.match(r"---\n(.*?)^---$", card.content.decode(), re.M | re.S) if card else None
    tags = re.search(r"^tags:\n((?: *- .*\n)*)", front[1], re.M) if front else None
    return [line.strip(" -\"'") for line in tags[1].splitlines()] if tags else []


class Repo:
    def __init__(self, name):
        self.name = name
        self.private = False
        self.gated = False
        self.granted = []
        self.tags = []
        self.card = {}
        self.commits = {}  # commit: {path: File}
        self.refs = {}
        self.commit({}, "main", "initial commit")

    def commit(self, files, revision, summary):
        text = json.dumps([self.name, len(self.commits), summary, sorted((p, f.blob_id) for p, f in files.items())])
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.commits[commit] = files
        self.refs[revision] = commit
        return commit

    def resolve(self, revision):
        return revision if revision in self.commits else self.refs.get(revision)


class World:
    """What the handlers share, under one lock."""

    def __init__(self):
        self.lock = threading.RLock()
        self.repos = {}
        self.storage = {}  # sha256: content
        self.parts = {}    # sha256: {number: content}
        self.faults = []
        self.log = []
        self.settings = {"page": 1000, "part": 5 << 20, "lfs": 64 << 10}
        self.hub = self.cdn = ""

    def is_large(self, path, size, sample):
        return size >= self.settings["lfs"] or b"\0" in sample or path.endswith((".safetensors", ".bin", ".pt"))

    def put(self, name, files, **properties):
        repo = self.repos.setdefault(name, None) or Repo(name)
        self.repos[name] = repo
        content = dict(repo.commits[repo.refs["main"]])
        for path, data in files.items():
            content[path] = File(data, self.is_large(path, len(data), data[:512]))
            self.storage[content[path].sha256] = data
        for key, value in properties.items():
            setattr(repo, key, value)
        repo.commit(content, "main", "added")
        return repo

    def fault_for(self, line):
        with self.lock:
            for fault in self.faults:
                if not re.search(fault["match"], line) or fault["times"] <= 0:
                    continue
                if fault.get("skip", 0) > 0:
                    fault["skip"] -= 1
                    continue
                fault["times"] -= 1
                return fault
        return None


WORLD = World()


class Refused(Exception):
    def __init__(self, status, message, code=None, **headers):
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers


class Lost(Exception):
    """The connection ends without an answer."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def version_string(self):
        return "local-hub"

    # -- the frame of every request -----------------------------------------------------------------------------------
    def handle_any(self):
        parts = urllib.parse.urlsplit(self.path)
        self.plain = urllib.parse.unquote(parts.path)
        self.query = urllib.parse.parse_qs(parts.query)
        self.raw = parts.path
        self.body = self.read_body()
        if not self.plain.startswith("/admin/"):
            self.entry = {"method": self.command, "path": self.plain, "host": self.headers.get("Host"),
                          "authorized": "Authorization" in self.headers, "range": self.headers.get("Range"),
                          "bytes": 0}
            with WORLD.lock:
                WORLD.log.append(self.entry)
            self.fault = WORLD.fault_for(f"{self.command} {self.plain}") or {"kind": ""}
        else:
            self.entry, self.fault = {"bytes": 0}, {"kind": ""}
        try:
            if self.fault["kind"] == "status":
                raise Refused(self.fault["status"], self.fault.get("message", "a fault"), self.fault.get("code"),
                              **self.fault.get("headers", {}))
            self.route()
        except Refused as refused:
            self.refuse(refused)
        except (BrokenPipeError, ConnectionResetError, Lost):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def refuse(self, refused):
        headers = {"X-Error-Message": refused.message, **refused.headers}
        if refused.code:
            headers["X-Error-Code"] = refused.code
        self.answer(json.dumps({"error": refused.message}).encode(), refused.status, headers)

    def answer(self, content=b"", status=200, headers=None):
        self.send_response(status)
        headers = {"Content-Type": "application/json", **(headers or {})}
        headers.setdefault("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_bytes(content)

    def send_bytes(self, content):
        kind, after = self.fault["kind"], self.fault.get("after", 0)
        if kind == "wrong" and after < len(content):
            content = content[:after] + bytes([content[after] ^ 255]) + content[after + 1:]
        for start in range(0, len(content), PIECE):
            piece = content[start:start + PIECE]
            if kind in ("cut", "stall") and start <= after < start + len(piece):
                self.wfile.write(piece[:after - start])
                self.wfile.flush()
                self.entry["bytes"] += after - start
                if kind == "cut":
                    raise Lost
                time.sleep(self.fault["seconds"])
                piece = piece[after - start:]
            self.wfile.write(piece)
            self.entry["bytes"] += len(piece)
            if kind == "slow":
                time.sleep(len(piece) / self.fault["rate"])

    def answer_json(self, value, status=200, headers=None):
        if self.fault["kind"] == "lost":
            raise Lost
        self.answer(json.dumps(value).encode(), status, headers)

    def answer_file(self, content, headers):
        """Whole, or the range that was asked for."""
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not match or match.groups() == ("", "") or "whole" in (self.fault["kind"], self.fault.get("also")):
            return self.answer(content, 200, headers)
        first, last = match.groups()
        start = int(first) if first else max(0, len(content) - int(last))
        end = min(int(last), len(content) - 1) if first and last else len(content) - 1
        if start > end:
            raise Refused(416, "Range Not Satisfiable", **{"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return self.answer(content[start:end + 1], 206, headers)

    # -- who asks -----------------------------------------------------------------------------------------------------
    def user(self):
        value = self.headers.get("Authorization")
        if value is None:
            return None
        user = USERS.get(value.removeprefix("Bearer "))
        if user is None:
            raise Refused(401, "Invalid credentials in Authorization header")
        return user

    def writer(self):
        user = self.user()
        if user is None:
            raise Refused(401, "Invalid username or password.")
        if user["role"] != "write":
            raise Refused(403, "This token has no write access")
        return user

    def repo(self, name):
        user = self.user()
        repo = WORLD.repos.get(name)
        if repo is None or (repo.private and (user is None or user["role"] != "write")):
            if user is None:
                raise Refused(401, "Invalid username or password.", "RepoNotFound")
            raise Refused(404, "Repository not found", "RepoNotFound")
        return repo

    def commit_of(self, repo, revision):
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def check_gate(self, repo):
        user = self.user()
        if not repo.gated or (user and (user["role"] == "write" or user["name"] in repo.granted)):
            return
        raise Refused(403 if user else 401, f"Access to model {repo.name} is restricted.", "GatedRepo")

    # -- routes -------------------------------------------------------------------------------------------------------
    def route(self):
        if self.server is CDN:
            return self.route_storage()
        for method, pattern, action in ROUTES:
            match = re.fullmatch(pattern, self.raw)
            if match and self.command in method.split("|"):
                with_names = {k: urllib.parse.unquote(v) for k, v in match.groupdict().items() if v is not None}
                return action(self, **with_names)
        raise Refused(404, "Sorry, we can't find the page you are looking for.")

    def info(self, id, revision="main"):
        with WORLD.lock:
            repo = self.repo(id)
            self.answer_json(self.describe(repo, self.commit_of(repo, revision)))

    def describe(self, repo, commit):
        files = repo.commits[commit]
        return {"_id": "0" * 24, "id": repo.name, "modelId": repo.name, "sha": commit, "private": repo.private,
                "gated": repo.gated, "disabled": False, "tags": repo.tags, "cardData": repo.card, "downloads": 3,
                "likes": 1, "lastModified": "2026-09-15T10:00:00.000Z", "createdAt": "2026-09-01T10:00:00.000Z",
                "author": repo.name.split("/")[0], "siblings": [{"rfilename": path} for path in sorted(files)]}

    def tree(self, id, revision, path=""):
        with WORLD.lock:
            repo = self.repo(id)
            files = repo.commits[self.commit_of(repo, revision)]
            recursive = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
            entries = {}
            for name, file in sorted(files.items()):
                if path and not name.startswith(path + "/"):
                    continue
                rest = name[len(path) + 1 if path else 0:].split("/")
                for depth in range(1, len(rest) if recursive else min(2, len(rest))):
                    folder = "/".join(([path] if path else []) + rest[:depth])
                    entries[folder + "/"] = {"type": "directory", "path": folder, "size": 0,
                                             "oid": git_blob(folder.encode())}
                if recursive or len(rest) == 1:
                    entries[name] = file.entry(name)
        entries = list(entries.values())
        start, page = int(self.query.get("cursor", ["0"])[0]), WORLD.settings["page"]
        headers = {}
        if start + page < len(entries):
            query = urllib.parse.urlencode({"recursive": str(recursive).lower(), "cursor": start + page})
            headers["Link"] = f'<{WORLD.hub}{self.raw}?{query}>; rel="next"'
        self.answer_json(entries[start:start + page], headers=headers)

    def paths_info(self, id, revision):
        with WORLD.lock:
            repo = self.repo(id)
            files = repo.commits[self.commit_of(repo, revision)]
            wanted = json.loads(self.body)["paths"]
            self.answer_json([files[path].entry(path) for path in wanted if path in files])

    def search(self):
        self.user()
        get = lambda name: self.query.get(name, [""])[0]
        with WORLD.lock:
            found = [repo for name, repo in sorted(WORLD.repos.items())
                     if get("search").lower() in name.lower() and not repo.private
                     and (not get("author") or name.startswith(get("author") + "/"))
                     and all(tag in repo.tags for tag in self.query.get("filter", []))]
            limit = int(get("limit") or 1000)
            self.answer_json([self.describe(repo, repo.refs["main"]) for repo in found[:limit]])

    def whoami(self):
        user = self.user()
        if user is None:
            raise Refused(401, "Invalid username or password.")
        self.answer_json({"type": "user", "name": user["name"], "fullname": user["name"],
                          "orgs": [{"type": "org", "name": name} for name in user["orgs"]],
                          "auth": {"type": "access_token", "accessToken": {"displayName": "t", "role": user["role"]}}})

    def resolve(self, id, revision, path):
        with WORLD.lock:
            repo = self.repo(id)
            commit = self.commit_of(repo, revision)
            self.check_gate(repo)
            file = repo.commits[commit].get(path)
        if file is None:
            raise Refused(404, "Entry not found", "EntryNotFound", **{"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        digest = file.sha256 if file.lfs else file.blob_id
        headers.update({"X-Linked-Size": str(len(file.content)), "X-Linked-Etag": f'"{digest}"'})
        if file.lfs:
            signed = urllib.parse.urlencode({"Expires": 1, "Signature": "secret-of-this-link"})
            return self.answer(b"", 302, {**headers, "Location": f"{WORLD.cdn}/objects/{file.sha256}?{signed}"})
        cache = f"/api/resolve-cache/models/{id}/{commit}/{urllib.parse.quote(path)}"
        return self.answer(b"", 307, {**headers, "Location": cache})

    def resolve_cache(self, id, revision, path):
        with WORLD.lock:
            repo = self.repo(id)
            self.check_gate(repo)
            file = repo.commits[revision][path]
        self.answer_file(file.content, {"ETag": f'"{file.blob_id}"', "X-Repo-Commit": revision})

    def create(self):
        user = self.writer()
        wanted = json.loads(self.body)
        name = f"{wanted.get('organization') or user['name']}/{wanted['name']}"
        with WORLD.lock:
            if name in WORLD.repos:
                raise Refused(409, "You already created this model repo")
            WORLD.repos[name] = Repo(name)
            WORLD.repos[name].private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        self.answer_json({"url": f"{WORLD.hub}/{name}", "id": name, "name": name})

    def validate_yaml(self):
        self.answer_json({"errors": [], "warnings": []})

    def settings(self, id):
        self.writer()
        wanted = json.loads(self.body)
        with WORLD.lock:
            repo = self.repo(id)
            repo.private = wanted.get("private", wanted.get("visibility") == "private")
            self.answer_json({"private": repo.private})

    def preupload(self, id, revision):
        self.writer()
        with WORLD.lock:
            repo = self.repo(id)
            files = repo.commits[self.commit_of(repo, revision)]
            modes = []
            for file in json.loads(self.body)["files"]:
                large = WORLD.is_large(file["path"], file["size"], base64.b64decode(file["sample"]))
                there = files.get(file["path"])
                modes.append({"path": file["path"], "uploadMode": "lfs" if large else "regular",
                              "shouldIgnore": False, "oid": there.blob_id if there else None})
            self.answer_json({"files": modes})

    def lfs_batch(self, id):
        self.writer()
        question = json.loads(self.body)
        if question["operation"] != "upload" or question.get("hash_algo", "sha256") != "sha256":
            raise Refused(422, "Only uploads")
        with WORLD.lock:
            self.repo(id)
            objects = [self.lfs_object(wanted["oid"], wanted["size"]) for wanted in question["objects"]]
        self.answer_json({"transfer": "multipart", "objects": objects},
                         headers={"Content-Type": "application/vnd.git-lfs+json"})

    @staticmethod
    def lfs_object(oid, size):
        found = {"oid": oid, "size": size, "authenticated": True}
        if oid in WORLD.storage:
            return found
        part = WORLD.settings["part"]
        upload = {"href": f"{WORLD.cdn}/store/{oid}?Signature=secret-of-this-link"}
        if size > part:
            count = -(-size // part)
            header = {f"{i + 1:05d}": f"{WORLD.cdn}/store/{oid}/{i + 1}?Signature=secret-of-this-link"
                      for i in range(count)}
            upload = {"href": f"{WORLD.hub}/api/complete/{oid}", "header": {"chunk_size": str(part), **header}}
        found["actions"] = {"upload": upload, "verify": {"href": f"{WORLD.hub}/api/verify/{oid}"}}
        return found

    def lfs_complete(self, oid):
        wanted = json.loads(self.body)
        with WORLD.lock:
            parts = WORLD.parts.get(oid, {})
            tags = {str(number): hashlib.md5(content).hexdigest() for number, content in parts.items()}
            for part in wanted["parts"]:
                if tags.get(str(part["partNumber"])) != part["etag"].strip('"'):
                    raise Refused(400, f"part {part['partNumber']} is not what was sent")
            content = b"".join(parts[number] for number in sorted(parts))
            self.store(oid, content)
        self.answer_json({})

    def lfs_verify(self, oid):
        self.writer()
        wanted = json.loads(self.body)
        with WORLD.lock:
            if wanted["oid"] != oid or len(WORLD.storage.get(oid, b"")) != wanted["size"]:
                raise Refused(404, "the object is not there")
        self.answer_json({})

    def store(self, oid, content):
        if hashlib.sha256(content).hexdigest() != oid:
            raise Refused(400, "the content does not have that digest")
        WORLD.storage[oid] = content

    def commit(self, id, revision):
        self.writer()
        with WORLD.lock:
            repo = self.repo(id)
            head = self.commit_of(repo, revision)
            if self.headers.get("Content-Type") != "application/x-ndjson":
                raise Refused(415, "expected application/x-ndjson")
            lines = [json.loads(line) for line in self.body.splitlines() if line]
            header = lines[0]["value"]
            if header.get("parentCommit", head) != head:
                raise Refused(412, "A commit has happened since. Please refresh and try again.")
            files = dict(repo.commits[head])
            for line in lines[1:]:
                self.apply(files, line["key"], line["value"])
            commit = repo.commit(files, revision, header["summary"])
            if any(line["value"].get("path") == "README.md" for line in lines[1:]):
                repo.tags = tags_of(files.get("README.md"))
            self.answer_json({"success": True, "commitUrl": f"{WORLD.hub}/{id}/commit/{commit}", "commitOid": commit})

    @staticmethod
    def apply(files, key, value):
        path = value["path"]
        if key == "file":
            files[path] = File(base64.b64decode(value["content"]), False)
        elif key == "lfsFile":
            if value["oid"] not in WORLD.storage:
                raise Refused(400, f"LFS pointer pointed to a file that does not exist: {path}")
            files[path] = File(WORLD.storage[value["oid"]], True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise Refused(400, f"{path} does not exist")
        elif key == "deletedFolder":
            for name in [name for name in files if name.startswith(path.rstrip("/") + "/")]:
                del files[name]
        else:
            raise Refused(400, f"unknown operation {key}")

    # -- the other host -----------------------------------------------------------------------------------------------
    def route_storage(self):
        if "Authorization" in self.headers:
            raise Refused(400, "Only one auth mechanism allowed")
        match = re.fullmatch(r"/(objects|store)/([0-9a-f]{64})(?:/(\d+))?", self.plain)
        if not match:
            raise Refused(404, "NoSuchKey")
        kind, oid, part = match.groups()
        if kind == "objects" and self.command in ("GET", "HEAD"):
            if oid not in WORLD.storage:
                raise Refused(404, "NoSuchKey")
            return self.answer_file(WORLD.storage[oid], {"ETag": f'"{hashlib.md5(WORLD.storage[oid]).hexdigest()}"'})
        if self.command != "PUT" or "Content-Length" not in self.headers:
            raise Refused(411, "MissingContentLength")
        with WORLD.lock:
            if part is None:
                self.store(oid, self.body)
            else:
                WORLD.parts.setdefault(oid, {})[int(part)] = self.body
        return self.answer(b"", 200, {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'})

    # -- what tests say -----------------------------------------------------------------------------------------------
    def admin_repo(self):
        wanted = json.loads(self.body)
        files = {path: base64.b64decode(content) for path, content in wanted.pop("files", {}).items()}
        with WORLD.lock:
            repo = WORLD.put(wanted.pop("id"), files, **wanted)
            self.answer_json({"commit": repo.refs["main"]})

    def admin_set(self):
        settings = json.loads(self.body)
        WORLD.hub, WORLD.cdn = settings.pop("hub", WORLD.hub), settings.pop("cdn", WORLD.cdn)
        WORLD.settings.update(settings)
        self.answer_json({})

    def admin_fault(self):
        with WORLD.lock:
            WORLD.faults.append({"times": 1, **json.loads(self.body)})
        self.answer_json({})

    def admin_reset(self):
        with WORLD.lock:
            WORLD.faults.clear()
            WORLD.log.clear()
        self.answer_json({})

    def admin_log(self):
        with WORLD.lock:
            self.answer_json(WORLD.log)

    def admin_state(self):
        with WORLD.lock:
            repo = WORLD.repos.get(self.query["repo"][0])
            if repo is None:
                raise Refused(404, "no such repository")
            head = repo.refs["main"]
            files = {path: {"sha256": file.sha256, "size": len(file.content), "lfs": file.lfs}
                     for path, file in repo.commits[head].items()}
            self.answer_json({"commit": head, "commits": len(repo.commits), "private": repo.private, "files": files})


ID, REVISION = r"(?P<id>[^/]+/[^/]+)", r"(?P<revision>[^/]+)"
ROUTES = [
    ("GET", rf"/api/models", Handler.search),
    ("GET", rf"/api/models/{ID}", Handler.info),
    ("GET", rf"/api/models/{ID}/revision/{REVISION}", Handler.info),
    ("GET", rf"/api/models/{ID}/tree/{REVISION}(?:/(?P<path>.+))?", Handler.tree),
    ("POST", rf"/api/models/{ID}/paths-info/{REVISION}", Handler.paths_info),
    ("POST", rf"/api/models/{ID}/preupload/{REVISION}", Handler.preupload),
    ("POST", rf"/api/models/{ID}/commit/{REVISION}", Handler.commit),
    ("PUT", rf"/api/models/{ID}/settings", Handler.settings),
    ("GET|HEAD", rf"/api/resolve-cache/models/{ID}/{REVISION}/(?P<path>.+)", Handler.resolve_cache),
    ("POST", r"/api/repos/create", Handler.create),
    ("GET", r"/api/whoami-v2", Handler.whoami),
    ("POST", r"/api/validate-yaml", Handler.validate_yaml),
    ("POST", r"/api/complete/(?P<oid>[0-9a-f]{64})", Handler.lfs_complete),
    ("POST", r"/api/verify/(?P<oid>[0-9a-f]{64})", Handler.lfs_verify),
    ("POST", rf"/(?P<id>[^/]+/[^/]+)\.git/info/lfs/objects/batch", Handler.lfs_batch),
    ("POST", r"/admin/repo", Handler.admin_repo),
    ("POST", r"/admin/set", Handler.admin_set),
    ("POST", r"/admin/fault", Handler.admin_fault),
    ("POST", r"/admin/reset", Handler.admin_reset),
    ("GET", r"/admin/log", Handler.admin_log),
    ("GET", r"/admin/state", Handler.admin_state),
    ("GET|HEAD", rf"/{ID}/resolve/{REVISION}/(?P<path>.+)", Handler.resolve),
]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError, ssl.SSLError)):
            super().handle_error(request, client_address)


def load(folder):
    for place in sorted(folder.glob("*/*")):
        files = {file.relative_to(place).as_posix(): file.read_bytes() for file in place.rglob("*") if file.is_file()}
        WORLD.put(f"{place.parent.name}/{place.name}", files)


HUB = Server(("127.0.0.1", 0), Handler)
CDN = Server(("127.0.0.1", 0), Handler)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--certificate")
    arguments = parser.parse_args()
    scheme = "https" if arguments.certificate else "http"
    WORLD.hub = f"{scheme}://127.0.0.1:{HUB.server_address[1]}"
    WORLD.cdn = f"{scheme}://localhost:{CDN.server_address[1]}"
    if arguments.folder:
        load(arguments.folder)
    for server in (HUB, CDN):
        if arguments.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(arguments.certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"hub": WORLD.hub, "cdn": WORLD.cdn}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
