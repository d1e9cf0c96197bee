#include "package/build_scripts.h"

namespace sightline {
namespace {

constexpr char kDockerfile[] =
    R"docker(# Builds one model package on Tenstorrent's tt-metal. Every choice arrives as a build argument or as a file of the
# context; the kind of server is in install_engine.sh and verify.sh.
ARG BASE_IMAGE
ARG UBUNTU_VERSION=22.04
ARG METAL_MODE=local

FROM ${BASE_IMAGE} AS prep
ARG PYTHON_VERSION
ENV VENV=/opt/tt-venv \
    UV_PYTHON_INSTALL_DIR=/opt/uv-python \
    UV_LINK_MODE=copy
RUN command -v uv || python3 -m pip install --no-cache-dir uv
RUN uv venv --python "${PYTHON_VERSION}" "$VENV"

FROM prep AS metal-local
COPY --from=metalsrc . /opt/tt-metal

FROM prep AS metal-git
ARG METAL_GIT_REPO
ARG METAL_GIT_REF
RUN git clone --filter=blob:none "${METAL_GIT_REPO}" /opt/tt-metal \
 && git -C /opt/tt-metal checkout "${METAL_GIT_REF}" \
 && git -C /opt/tt-metal submodule update --init --recursive

FROM metal-${METAL_MODE} AS builder
ARG SCM_VERSION
ARG METAL_DESCRIBE=v0.0.0
ARG EXTRA_MODELS_DIR
WORKDIR /opt/tt-metal
# tt-metal asks git for its version; a tree that came without its history gets a tag that gives the same answer.
RUN test -e .git || (git init -q . \
 && git -c user.name=tt-model -c user.email=tt-model@localhost commit -q --allow-empty -m source \
 && git tag "${METAL_DESCRIBE}")
RUN --mount=type=cache,target=/root/.ccache ./build_metal.sh --enable-ccache
RUN rm -rf models
COPY code/ /opt/tt-metal/
RUN SETUPTOOLS_SCM_PRETEND_VERSION="${SCM_VERSION}" uv pip install --python "$VENV/bin/python" -e . tt-smi
COPY requirements.lock* install_engine.sh verify.sh /ctx/
COPY plugin-src/ /ctx/plugin-src/
COPY vllm-src/ /ctx/vllm-src/
COPY wheels/ /ctx/wheels/
RUN mkdir -p /opt/vllm && bash /ctx/install_engine.sh
RUN rm -rf .git

FROM ubuntu:${UBUNTU_VERSION} AS runtime
ARG EXTRA_MODELS_DIR
ARG TT_VLLM_BUILTIN_MODELS
ARG TT_MODEL_KIND
ARG MODEL_NAME
ARG MODEL_REPO
ARG MODEL_WEIGHTS
ARG MODEL_ARCH
ARG MODEL_PROFILES
ARG MODEL_TT_METAL_SHA
ARG MODEL_TT_METAL_DESCRIBE
ARG MODEL_PLUGIN_SHA
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates g++ git libatomic1 libgl1 libglib2.0-0 libgomp1 libhwloc15 libnuma1 libpython3-dev \
 && rm -rf /var/lib/apt/lists/*
COPY --from=builder /opt/uv-python /opt/uv-python
COPY --from=builder /opt/tt-venv /opt/tt-venv
COPY --from=builder /opt/openmpi-v*-ulfm /opt/openmpi-ulfm/
COPY --from=builder /opt/vllm /opt/vllm
COPY --from=builder /opt/tt-metal /opt/tt-metal
COPY --from=builder /ctx/verify.sh /opt/tt-model/verify.sh
COPY entrypoint.sh serve-default.sh /opt/tt-model/
RUN useradd --uid 1000 --create-home --home-dir /home/tt tt \
 && mkdir -p /home/tt/work /hf /cache /weight-cache /tensor-cache \
 && chmod 1777 /home/tt /home/tt/work /hf /cache /weight-cache /tensor-cache \
 && chmod 0755 /opt/tt-model/*.sh
ENV VENV=/opt/tt-venv \
    PATH=/opt/tt-venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    TT_METAL_RUNTIME_ROOT=/opt/tt-metal \
    TT_METAL_HOME=/opt/tt-metal \
    PYTHONPATH=/opt/tt-metal \
    LD_LIBRARY_PATH=/opt/tt-metal/build/lib:/opt/openmpi-ulfm/lib \
    HF_HOME=/hf \
    TT_METAL_CACHE=/cache \
    HOME=/home/tt \
    USER=tt \
    LOGNAME=tt \
    TT_MODEL_KIND=${TT_MODEL_KIND} \
    TT_VLLM_BUILTIN_MODELS=${TT_VLLM_BUILTIN_MODELS} \
    EXTRA_MODELS_DIR=${EXTRA_MODELS_DIR}
LABEL org.tenstorrent.tt-model=${MODEL_NAME} \
      org.tenstorrent.tt-model.repo=${MODEL_REPO} \
      org.tenstorrent.tt-model.weights=${MODEL_WEIGHTS} \
      org.tenstorrent.tt-model.arch=${MODEL_ARCH} \
      org.tenstorrent.tt-model.kind=${TT_MODEL_KIND} \
      org.tenstorrent.tt-model.profiles=${MODEL_PROFILES} \
      org.tenstorrent.tt-model.tt-metal=${MODEL_TT_METAL_SHA} \
      org.tenstorrent.tt-model.tt-metal-describe=${MODEL_TT_METAL_DESCRIBE} \
      org.tenstorrent.tt-model.plugin=${MODEL_PLUGIN_SHA} \
      org.opencontainers.image.revision=${MODEL_TT_METAL_SHA}
USER tt
WORKDIR /home/tt/work
ENTRYPOINT ["/opt/tt-model/entrypoint.sh"]
CMD ["/opt/tt-model/serve-default.sh"]

# Last, so that a failed check costs minutes and not the build; as the user that will run the image.
FROM runtime AS verified
RUN /opt/tt-model/entrypoint.sh bash /opt/tt-model/verify.sh
)docker";

constexpr char kEntrypoint[] = R"bash(#!/bin/bash
# Prepares what any user id needs and becomes the command, so that signals reach it.
set -euo pipefail
cd "$HOME/work"
export TT_METAL_CACHE="${TT_METAL_CACHE:-/cache}"
export TT_METAL_LOGS_PATH="${TT_METAL_LOGS_PATH:-$PWD/logs}"
mkdir -p "$TT_METAL_CACHE" "$TT_METAL_LOGS_PATH"
unset VLLM_PLUGINS
if [ -z "${TT_VLLM_BUILTIN_MODELS:-}" ]; then
  unset TT_VLLM_BUILTIN_MODELS
fi
exec "$@"
)bash";

}  // namespace

std::string_view DockerfileText() { return kDockerfile; }
std::string_view EntrypointText() { return kEntrypoint; }

}  // namespace sightline
