# Both Spool programs, one file under two names: the worker is what the image runs, the command
# line is there for `docker compose exec worker spool …`.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE_IMAGE=debian:12.12-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/spool ./starter \
 && mkdir -p /out/data /out/workspace

# The shell tool needs a shell, so this is no empty image.
FROM ${BASE_IMAGE}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/spool /usr/local/bin/
RUN ln -s spool /usr/local/bin/spool-worker
# Volumes take over the owner of the folder they cover.
COPY --from=build --chown=10001:10001 /out/data /data
COPY --from=build --chown=10001:10001 /out/workspace /workspace
ENV HOME=/data SPOOL_HOME=/data SPOOL_WORKSPACE=/workspace
USER 10001:10001
WORKDIR /workspace
ENTRYPOINT ["spool-worker"]
