# SPDX-License-Identifier: Apache-2.0
"""The stock clients, in a process of their own: they can hang, and some take seconds to import.

    stock_client.py tensorflow|xprof

Prints `ready` once everything is imported. Each line on stdin is a request in JSON, each answer a line in JSON:
{"ok": true, "seconds": S, "ended_unix_ns": T, ...} or {"ok": false, ..., "error": text}. What the clients themselves write to stderr stays there.
"""

import gzip
import json
import sys
import time


class TensorFlow:
    def __init__(self):
        import tensorflow as tf

        self._client = tf.profiler.experimental.client

    def trace(self, addresses, logdir, duration_ms, attempts=3):
        self._client.trace(",".join("grpc://" + address for address in addresses), logdir, duration_ms, num_tracing_attempts=attempts)
        return {}

    def monitor(self, address, duration_ms, level):
        return {"text": self._client.monitor("grpc://" + address, duration_ms, level)}

    def count(self, path):
        """What TensorFlow's own messages find in a file: an opinion that shares no code with us."""
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        space = xplane_pb2.XSpace()
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
        return {
            "hostnames": list(space.hostnames),
            "planes": {plane.name: sum(len(line.events) for line in plane.lines) for plane in space.planes},
            "stop_unix_ns": _stop_unix_ns(space),
            "unknown_bytes": space.ByteSize() - _known_size(space),
        }


def _stop_unix_ns(space):
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_stop_time":
                return stat.uint64_value
    return None


def _known_size(message):
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy.ByteSize()


class XProf:
    """The routes of XProf's web pages, such as that of the "Capture profile" button, and the library under them."""

    def __init__(self):
        import werkzeug.test
        from xprof import profile_plugin_loader, server
        from xprof.convert import _pywrap_profiler_plugin, raw_to_tool_data

        self._werkzeug, self._server, self._loader = werkzeug.test, server, profile_plugin_loader
        self._library, self._convert = _pywrap_profiler_plugin, raw_to_tool_data
        self._application(".")  # imports TensorFlow, which no call should have to wait for

    def _application(self, logdir):
        context = self._server.TBContext(logdir, self._server.DataProvider(logdir), self._server.TBContext.Flags(False))
        context.hide_capture_profile_button, context.enable_tab_name_label, context.src_prefix = False, False, None
        return self._server.make_wsgi_app(self._loader.ProfilePluginLoader().load(context))

    def _get(self, logdir, route, query):
        client = self._werkzeug.Client(self._application(logdir))
        response = client.get("/data/plugin/profile/" + route, query_string=query)
        body = response.get_data()
        if response.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if response.status_code != 200:
            raise RuntimeError(f"HTTP {response.status_code}: {body.decode()}")
        return body.decode()

    def trace(self, addresses, logdir, duration_ms, attempts=3):
        text = self._get(logdir, "capture_profile", {
            "service_addr": ",".join(addresses), "duration": str(duration_ms), "num_retry": str(attempts), "worker_list": "",
            "host_tracer_level": "2", "device_tracer_level": "1", "python_tracer_level": "0", "delay": "0", "is_tpu_name": "false",
        })
        return {"text": text}

    def runs(self, logdir):
        return {"runs": json.loads(self._get(logdir, "runs", {}))}

    def tools(self, logdir, run):
        return {"tools": json.loads(self._get(logdir, "run_tools", {"run": run}))}

    def hosts(self, logdir, run, tool):
        return {"hosts": [host["hostname"] for host in json.loads(self._get(logdir, "hosts", {"run": run, "tag": tool}))]}

    def tool_names(self, paths):
        return {"tools": self._convert.xspace_to_tool_names(paths)}

    def read(self, paths, tool, **params):
        """What a page of XProf would show of these files, never out of its cache."""
        data, _ = self._convert.xspace_to_tool_data(paths, tool, {"use_saved_result": False, **params})
        if data is None:
            raise RuntimeError(f"no {tool} for {paths}")
        return {"data": json.loads(data)}

    def monitor(self, address, duration_ms, level):
        return {"text": str(self._library.monitor(address, duration_ms, level, True))}

    def start_continuous(self, address, logdir, duration_ms):
        self._library.start_continuous_profiling(address, {"duration_ms": duration_ms})
        return {}

    def snapshot(self, address, logdir):
        self._library.get_snapshot(address, logdir)
        return {}

    def stop_continuous(self, address):
        self._library.stop_continuous_profiling(address)
        return {}


def main():
    client = {"tensorflow": TensorFlow, "xprof": XProf}[sys.argv[1]]()
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        call = getattr(client, request.pop("call"))
        begin = time.monotonic()
        try:
            answer = {"ok": True, **call(**request)}
        except Exception as error:  # Whatever a stock client raises is the answer.
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answer["seconds"] = time.monotonic() - begin
        answer["ended_unix_ns"] = time.time_ns()
        print("answer " + json.dumps(answer), flush=True)


main()
