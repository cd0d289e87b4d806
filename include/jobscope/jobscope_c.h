/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI of libjobscope.so: the profiler server and programmatic captures. Recording is the C
 * ABI of libjobscope_trace.so (detail/writer_abi.h); C++ users take profiler_server.h, capture.h
 * and trace.h instead.
 *
 * No function throws, aborts or exits. All may be called from any thread, not from a signal
 * handler. Structs carry their size, so that a newer library serves an older caller: set it with
 * sizeof, zero the rest.
 */
#ifndef JOBSCOPE_JOBSCOPE_C_H_
#define JOBSCOPE_JOBSCOPE_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(JOBSCOPE_BUILDING_LIBRARY)
#define JOBSCOPE_API __attribute__((visibility("default")))
#else
#define JOBSCOPE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
JOBSCOPE_API const char* jobscope_version(void);

/* ---- server ---- */

typedef struct jobscope_server_options {
  size_t size; /* sizeof(jobscope_server_options) */
  /* host:port, [v6]:port, unix:/path; port 0 picks one; a suffix "+rank" adds the local rank to the
   * port. NULL or "": JOBSCOPE_LISTEN; if that is not set either, the start fails. At most 1,024
   * bytes. */
  const char* address;
  /* 1: serve a non-loopback address to everybody who reaches it. 0: as JOBSCOPE_INSECURE says. */
  int insecure;
  /* Memory that one capture may take, in bytes, 1 MiB to 1.9 GiB. 0: JOBSCOPE_STORE_MB, else 256
   * MiB. */
  uint64_t store_bytes;
  /* Records per thread, a power of two, 1,024 to 4,194,304 (32 bytes each). 0: 32,768. */
  uint32_t ring_records;
  /* Memory for all rings, in bytes. 0: 64 MiB. */
  uint64_t rings_cap_bytes;
  /* 1: record nothing between captures, not even steps (no lookback, no step rate). 0: steps, input
   * waits, coarse scopes. */
  int no_always_on;
  /* Paths of files; NULL or "": the variable in parentheses, else none. At most 4,096 bytes each.
   * docs/security.md tells what they must hold. tls_cert and tls_key: the worker's certificate
   * chain and its key, PEM; both or none (JOBSCOPE_TLS_CERT, JOBSCOPE_TLS_KEY). tls_ca: callers
   * must present a certificate of a CA in it (JOBSCOPE_TLS_CA). token_file: callers must present
   * this token (JOBSCOPE_TOKEN_FILE). */
  const char* tls_cert;
  const char* tls_key;
  const char* tls_ca;
  const char* token_file;
} jobscope_server_options;

/* Starts the process's server. Returns 0 and writes the address really bound ("127.0.0.1:40123") to
 * `address`; or a positive error code (see JOBSCOPE_E_*) and a text that says what to do to
 * `error`. Either buffer may be NULL; texts are cut at its size. Takes a few milliseconds.
 * A second call with the same options returns the same server, and so does any call in a process
 * whose server the environment asked for (`jobscope run`, JOBSCOPE_LISTEN). With other options than
 * those of a server that was started in code: JOBSCOPE_E_BUSY, and `address` is that server's. */
JOBSCOPE_API int jobscope_server_start(const jobscope_server_options* options, char* address,
                                       size_t address_size, char* error, size_t error_size);

/* Ends the server: a running capture is ended and delivered, for at most 2 s. Returns 0, also when
 * none runs. */
JOBSCOPE_API int jobscope_server_stop(void);

/* 1 if a server runs in this process. */
JOBSCOPE_API int jobscope_server_running(void);

/* ---- programmatic captures ---- */

typedef struct jobscope_capture_options {
  size_t size;              /* sizeof(jobscope_capture_options) */
  int host_tracer_level;    /* 0..3; -1: 2 */
  int device_tracer_level;  /* 0..1; -1: 1 */
  int python_tracer_level;  /* 0..2; -1: 0 */
  uint64_t max_trace_bytes; /* of items held, 1 MiB to 64 GiB; 0: 256 MiB. Over it, events are lost,
                               and counted */
  uint64_t lookback_ms; /* events from before the start that are still in the rings, 0..3,600,000 */
  uint64_t part_limit_bytes; /* a trace larger than this is cut into parts, 64 KiB to 1.9 GiB; 0:
                                256 MiB */
  const char* frameworks;    /* whose own events: NULL, "" or "auto": of all that the process has
                                loaded; "none"; or names, "torch,jax". At most 1,024 bytes */
  int record_shapes;         /* 1: also the shapes of the inputs of PyTorch's operators */
  const char* device_tracer; /* who traces GPUs: NULL, "" or "auto": JAX or TensorFlow where they
                                use GPUs without PyTorch, else jobscope; "jobscope"; "framework" */
} jobscope_capture_options;

typedef struct jobscope_capture_result {
  size_t size;              /* sizeof(jobscope_capture_result), set by the caller */
  char run_directory[4096]; /* <logdir>/plugins/profile/<run> */
  uint64_t events;
  uint64_t lost; /* UINT64_MAX: not known, because a collector hung; the trace lacks its end */
} jobscope_capture_result;

/* Starts a capture of this process into `logdir`. Returns 0, or an error code and a text. The
 * logdir is checked now. */
JOBSCOPE_API int jobscope_capture_start(const char* logdir, const jobscope_capture_options* options,
                                        char* error, size_t error_size);
/* Ends it, writes the run directory, fills `result`. Blocks until the files are on disk. */
JOBSCOPE_API int jobscope_capture_stop(jobscope_capture_result* result, char* error,
                                       size_t error_size);
/* Captures steps first..last into `logdir`, without further calls: starts and ends by itself,
 * writes on a thread of its own. Returns 0 once armed. jobscope_capture_stop tells the result; a
 * window that is still open is ended early. */
JOBSCOPE_API int jobscope_capture_steps(const char* logdir, int64_t first, int64_t last,
                                        const jobscope_capture_options* options, char* error,
                                        size_t error_size);

enum {
  JOBSCOPE_OK = 0,
  JOBSCOPE_E_INVALID =
      1, /* an option is out of range or malformed, or a credential file is not good */
  JOBSCOPE_E_ADDRESS = 2, /* the address cannot be bound */
  JOBSCOPE_E_REFUSED = 3, /* a non-loopback address without credentials, or JOBSCOPE_DISABLE=1 */
  JOBSCOPE_E_BUSY = 4,    /* another server or capture of this process is in the way */
  JOBSCOPE_E_FORKED = 5,  /* a forked child of a process that had a server */
  JOBSCOPE_E_IO = 6,      /* logdir, disk */
  JOBSCOPE_E_STATE = 7,   /* stop without start */
  JOBSCOPE_E_INTERNAL = 8,
};

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_JOBSCOPE_C_H_ */
