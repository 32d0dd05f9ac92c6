# The container image of a checkout, for CPUs or NVIDIA GPUs. Build it in the top folder of the repository:
#
#   docker build --tag mtf-imaging:0.1.0 .
#   docker build --tag mtf-imaging:0.1.0-gpu --build-arg EXTRA=gpu .
#
# EXTRA=gpu installs the CUDA libraries. The host provides the driver.
# BASE may be any Debian or Ubuntu image with Python 3.11 to 3.13.
ARG BASE=docker.io/library/python:3.12-slim-bookworm

FROM ${BASE} AS build
ARG EXTRA=
COPY . /source
RUN python3 -m venv /opt/mtf_imaging \
    && /opt/mtf_imaging/bin/pip install --no-cache-dir "/source${EXTRA:+[${EXTRA}]}"

FROM ${BASE}
LABEL org.opencontainers.image.title="mtf_imaging" \
      org.opencontainers.image.description="Convolutional networks on images too large for one device" \
      org.opencontainers.image.licenses="Apache-2.0"
# tini runs as process 1 and forwards SIGTERM, which the kernel discards for a process 1 without a handler.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home mtf
COPY --from=build /opt/mtf_imaging /opt/mtf_imaging
ENV PATH=/opt/mtf_imaging/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib
# A numeric user, because Kubernetes cannot tell whether a name is root.
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["tini", "--", "mtf-imaging"]
CMD ["--help"]
