#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What grpcurl and grpc_health_probe do, as far as docs/wire.md uses them; by the name that it is called by.

grpcurl -plaintext -proto FILE [-d JSON] ADDRESS SERVICE/METHOD
grpc_health_probe -addr=ADDRESS
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory


def call(address, method, request, parse):
    with grpc.insecure_channel(address) as channel:
        return channel.unary_unary(f"/{method}", request_serializer=bytes, response_deserializer=parse)(request, timeout=60)


def grpcurl():
    parser = argparse.ArgumentParser()
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-proto", required=True)
    parser.add_argument("-d", default="{}")
    parser.add_argument("address")
    parser.add_argument("method")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(suffix=".binpb") as out:
        subprocess.run(["protoc", "--proto_path=.", "--include_imports", f"--descriptor_set_out={out.name}", options.proto], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    method = pool.FindServiceByName(options.method.split("/")[0]).FindMethodByName(options.method.split("/")[1])
    request = json_format.Parse(options.d, message_factory.GetMessageClass(method.input_type)())
    parse = message_factory.GetMessageClass(method.output_type).FromString
    print(json_format.MessageToJson(call(options.address, options.method, request.SerializeToString(), parse), indent=None))


def grpc_health_probe():
    parser = argparse.ArgumentParser()
    parser.add_argument("-addr", required=True)
    serving = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
    sys.exit(call(parser.parse_args().addr, "grpc.health.v1.Health/Check", b"", bytes) != serving)


{"grpcurl": grpcurl, "grpc_health_probe": grpc_health_probe}[pathlib.Path(sys.argv[0]).name]()
