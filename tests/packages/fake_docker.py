#!/usr/bin/env python3
"""A docker for tests: what it runs is this project's own server on the toy, as a plain process on the published port.

FAKE_DOCKER names a folder for its state, SIGHTLINE_BINARY the program. Speaks the part of docker's command line that
tt-model and tt use.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

STATE = pathlib.Path(os.environ["FAKE_DOCKER"])
IMAGE_ID = "sha256:" + "1" * 64


def containers():
    found = {}
    for file in sorted(STATE.glob("*.container")):
        container = json.loads(file.read_text())
        container["running"] = is_alive(container["pid"])
        found[container["name"]] = container
    return found


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def find(name):
    for container in containers().values():
        if name == container["name"] or container["id"].startswith(name):
            return container
    sys.exit(f"Error: No such object: {name}")


def labelled(arguments):
    """The containers that ps is asked for."""
    chosen = [c for c in containers().values() if c["running"] or {"-a", "--all"} & set(arguments)]
    for wanted in re.findall(r"label=(\S+)", " ".join(arguments)):
        key, _, value = wanted.partition("=")
        chosen = [c for c in chosen if key in c["labels"] and value in ("", c["labels"][key])]
    return chosen


def describe(container):
    port = str(container["port"])
    bindings = {f"{port}/tcp": [{"HostIp": "0.0.0.0", "HostPort": port}]}
    running = container["running"]
    return {"Id": container["id"], "Name": "/" + container["name"],
            "State": {"Status": "running" if running else "exited", "Running": running, "ExitCode": 0,
                      "StartedAt": "2026-01-01T00:00:00.123456789Z"},
            "Config": {"Image": container["image"], "Labels": container["labels"], "Env": []},
            "HostConfig": {"PortBindings": bindings}, "NetworkSettings": {"Ports": bindings if running else {}}}


def fill(template, container):
    """The few fields that Go's templates are asked for."""
    document = describe(container)
    fields = {"{{.Id}}": document["Id"], "{{.ID}}": document["Id"][:12], "{{.Names}}": container["name"],
              "{{.Image}}": container["image"], "{{.Status}}": "Up 3 minutes" if container["running"] else "Exited (0)",
              "{{.Ports}}": f"0.0.0.0:{container['port']}->{container['port']}/tcp" if container["running"] else "",
              "{{.State.Running}}": json.dumps(container["running"]), "{{.State.ExitCode}}": "0",
              "{{json .NetworkSettings.Ports}}": json.dumps(document["NetworkSettings"]["Ports"]),
              "{{json .}}": json.dumps(document)}
    for field, value in fields.items():
        template = template.replace(field, value)
    template = re.sub(r'\{\{.Label "([^"]+)"\}\}', lambda m: container["labels"].get(m[1], ""), template)
    return re.sub(r'\{\{index .Config.Labels "([^"]+)"\}\}', lambda m: container["labels"].get(m[1], ""), template)


def option(arguments, name):
    return arguments[arguments.index(name) + 1]


def run(arguments):
    name, port = option(arguments, "--name"), int(option(arguments, "--publish").split(":")[0])
    labels = dict(arguments[i + 1].split("=", 1) for i, word in enumerate(arguments) if word == "--label")
    image = next(word for word in arguments if word.startswith("tt-model/") and ":" in word)
    labels.setdefault("org.tenstorrent.tt-model.repo", "org/" + labels["org.tenstorrent.tt-model"])  # of the image
    with open(STATE / f"{name}.log", "w") as log:
        server = subprocess.Popen([os.environ["SIGHTLINE_BINARY"], "serve", "gaze-lle", "--toy", "--port", str(port)],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    container = {"id": f"{port:064x}", "name": name, "image": image, "port": port, "labels": labels, "pid": server.pid,
                 "arguments": arguments}
    (STATE / f"{name}.container").write_text(json.dumps(container))
    print(container["id"])


def logs(arguments):
    container = find(arguments[-1])
    with open(STATE / f"{container['name']}.log") as log:
        while True:
            text = log.read()
            sys.stdout.write(text)
            sys.stdout.flush()
            if not text and ("--follow" not in arguments or not is_alive(container["pid"])):
                return
            time.sleep(0.05)


def stop(arguments):
    container = find(arguments[-1])
    os.kill(container["pid"], signal.SIGTERM)
    while is_alive(container["pid"]):
        time.sleep(0.02)
    print(arguments[-1])


def inspect(arguments):
    names = [word for i, word in enumerate(arguments) if not word.startswith("-") and
             (i == 0 or arguments[i - 1] not in ("--format", "-f"))]
    found = [find(name) for name in names]
    if "--format" in arguments:
        for container in found:
            print(fill(option(arguments, "--format"), container))
    else:
        print(json.dumps([describe(container) for container in found]))


def main(arguments):
    with open(STATE / "calls", "a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    verb, rest = arguments[0], arguments[1:]
    if verb == "--version":
        print("Docker version 28.0.1, build x")
    elif verb == "version":
        print("28.0.1")
    elif verb == "info":
        print("[]")
    elif verb == "ps":
        template = option(rest, "--format") if "--format" in rest else "{{.ID}}"
        for container in labelled(rest):
            print(fill(template, container))
    elif verb == "image" and rest[0] == "inspect":
        print("1000" if "{{.Size}}" in rest else IMAGE_ID)
    elif verb == "container":
        inspect(rest[1:])
    elif verb == "port":
        container = find(rest[0])
        print(f"{container['port']}/tcp -> 0.0.0.0:{container['port']}")
    elif verb == "rm":
        (STATE / f"{find(rest[-1])['name']}.container").unlink()
    elif verb in ("run", "logs", "stop", "inspect"):
        {"run": run, "logs": logs, "stop": stop, "inspect": inspect}[verb](rest)
    else:
        sys.exit(f"docker: '{verb}' is not known to this docker")


if __name__ == "__main__":
    main(sys.argv[1:])
