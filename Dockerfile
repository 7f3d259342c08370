# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0

# The nodes and the command, with ROS 2 as Python wheels:
#     docker build --tag dyn_ros .
#     docker run --rm --network host --ipc host dyn_ros dyn_ros_node
FROM debian:trixie-slim AS build
RUN apt-get update && \
    apt-get install --yes --no-install-recommends g++ python3-dev python3-venv
COPY CMakeLists.txt LICENSE MANIFEST.in README.md package.xml pyproject.toml setup.cfg setup.py /src/
COPY config /src/config
COPY dyn_ros /src/dyn_ros
COPY interfaces /src/interfaces
COPY launch /src/launch
COPY msg /src/msg
COPY requirements /src/requirements
COPY srv /src/srv
# Processors of the machine code: all of this architecture, host or none. ROS: jazzy or kilted.
ARG DYN_ROS_BUILD=all
ARG ROS=jazzy
RUN python3 -m venv /opt/dyn_ros && \
    /opt/dyn_ros/bin/pip install --no-cache-dir --config-settings=ros=$ROS \
      "/src[viewer,check,logs,identify,xacro]" /src/interfaces

FROM debian:trixie-slim
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/dyn_ros /opt/dyn_ros
ENV PATH=/opt/dyn_ros/bin:$PATH
CMD ["dyn_ros", "--help"]
