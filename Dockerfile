# Built in one stage, run in another: the image that runs has no compiler, no pip and no development tool of ours.
FROM python:3.11-slim-bookworm AS build

# Where a CPU build of torch is found; without it, the default index's build brings the CUDA libraries along.
ARG PIP_EXTRA_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv --without-pip /opt/tracehouse

# The packages first: this layer, by far the largest, stays as it is when only our code changes.
COPY pyproject.toml requirements.lock ./
COPY tracehouse/pyproject.toml tracehouse/
# The extras `postgres`, `s3`, `grpc`, `telemetry` and `forms` too: settings alone decide whether they are used.
RUN python -c 'import tomllib; service, library = (tomllib.load(open(file, "rb"))["project"] for file in ("pyproject.toml", "tracehouse/pyproject.toml")); extras = service["optional-dependencies"]; print(*library["dependencies"], *library["optional-dependencies"]["check"], *(one for one in service["dependencies"] if not one.startswith("tracehouse")), *extras["postgres"], *extras["s3"], *extras["grpc"], *extras["telemetry"], *extras["forms"], sep="\n")' > dependencies.txt \
 && python -m pip --python /opt/tracehouse/bin/python install --constraint requirements.lock --requirement dependencies.txt

COPY LICENSE README.md ./
COPY tracehouse tracehouse
COPY service service
COPY workers workers
COPY migrations migrations
RUN python -m pip --python /opt/tracehouse/bin/python install --no-deps ./tracehouse .


FROM python:3.11-slim-bookworm

# Beside the state directory, one for files and one for secrets that several containers share: a new volume there
# belongs to the user.
RUN useradd --uid 10001 --create-home tracehouse \
 && install --directory --owner tracehouse --group tracehouse --mode 700 /var/lib/tracehouse /var/lib/tracehouse-files \
    /var/lib/tracehouse-secrets
COPY --from=build /opt/tracehouse /opt/tracehouse
# STATE_DIR is for `tracehouse keys`, too, which is run beside the service.
ENV PATH=/opt/tracehouse/bin:$PATH PYTHONUNBUFFERED=1 STATE_DIR=/var/lib/tracehouse

USER tracehouse
WORKDIR /var/lib/tracehouse
VOLUME /var/lib/tracehouse
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["tracehouse", "serve", "--host", "0.0.0.0", "--port", "8000"]
