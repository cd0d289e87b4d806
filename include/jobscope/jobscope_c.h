/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI of libjobscope.so: the profiler server and programmatic captures. Recording has a
 * separate C ABI, that of libjobscope_trace.so (detail/writer_abi.h). C++ code uses
 * profiler_server.h, capture.h and trace.h instead.
 *
 * Thread-safe. No function throws, aborts or exits. No function may be called from a signal
 * handler. Each struct contains its size, so that a newer library works with an older caller: set
 * `size` with sizeof, and all other fields to zero; in jobscope_capture_options, set the three
 * levels to -1 (0 switches a tracer off), or pass NULL.
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

/* Returns "0.1.0". */
JOBSCOPE_API const char* jobscope_version(void);

/* ---- server ---- */

typedef struct jobscope_server_options {
  size_t size; /* sizeof(jobscope_server_options) */
  /* host:port, [v6]:port or unix:/path, at most 1,024 bytes. With port 0 the kernel chooses; a
   * suffix "+rank" adds the local rank to the port. NULL or "": JOBSCOPE_LISTEN; if that is not set
   * either, the start fails with JOBSCOPE_E_INVALID. */
  const char* address;
  /* 1: requires no credentials on an address that other hosts can reach, and on every address,
   * loopback and Unix sockets included, accepts all users of the host. Configured credentials are
   * still required. 0: JOBSCOPE_INSECURE decides. */
  int insecure;
  /* Memory limit of one capture, in bytes, 1 MiB to 1,900 MiB. 0: JOBSCOPE_STORE_MB, else 256
   * MiB. */
  uint64_t store_bytes;
  /* Records per thread, a power of two, 1,024 to 4,194,304 (32 bytes each). 0: 32,768. */
  uint32_t ring_records;
  /* Memory limit of all rings, in bytes, at least one ring and 4,096 bytes. 0: 64 MiB. */
  uint64_t rings_cap_bytes;
  /* 1: records nothing between captures, not even steps (no lookback, no step rate). 0: records
   * steps, input waits and coarse scopes. */
  int no_always_on;
  /* Paths of files, at most 4,096 bytes each; NULL or "": the variable in parentheses, else none.
   * docs/security.md describes their contents.
   *   tls_cert, tls_key  the worker's certificate chain and its key, PEM; both or none
   *                      (JOBSCOPE_TLS_CERT, JOBSCOPE_TLS_KEY)
   *   tls_ca             callers must present a certificate of a CA in it (JOBSCOPE_TLS_CA)
   *   token_file         callers must present the token in it (JOBSCOPE_TOKEN_FILE) */
  const char* tls_cert;
  const char* tls_key;
  const char* tls_ca;
  const char* token_file;
  /* Names of callers, separated by commas: the common name or an alternative name of the caller's
   * certificate must be one of them. Requires tls_ca. NULL or "": JOBSCOPE_TLS_ALLOWED_NAMES, else
   * every certificate of tls_ca. */
  const char* tls_allowed_names;
  /* Users of this host that may call, in addition to the process's user and root, if the address is
   * a loopback address or a Unix socket and requires neither a token nor a certificate: user ids,
   * "1001,1002", or "any". NULL or "": JOBSCOPE_ALLOW_USERS, else none. Unused if insecure. */
  const char* allow_users;
  /* Ceilings on what clients may request. */
  /* Length of a capture, 1 to 3,600,000 ms. 0: JOBSCOPE_MAX_DURATION_MS, else 3,600,000. */
  uint64_t max_duration_ms;
  /* Events of one trace, in bytes, 1 MiB to 1 PiB. 0: JOBSCOPE_MAX_TRACE_MB (in MiB), else none. */
  uint64_t max_trace_bytes;
  /* Captures per minute. 0: JOBSCOPE_MAX_CAPTURES_PER_MINUTE, else none. */
  uint32_t max_captures_per_minute;
  /* Host, device and Python level. NULL or "": JOBSCOPE_MAX_LEVELS, else "3/1/1". */
  const char* max_levels;
  /* 1: callers may close the server (`capture stop --server`), as jobscope_server_stop does. 0:
   * JOBSCOPE_ALLOW_CLOSE decides. */
  int allow_close;
} jobscope_server_options;

/* Starts the process's server. Blocks for some milliseconds; for at most 10 s if a name server is
 * slow, and 7.8 s more if the file system of JOBSCOPE_PORT_DIR hangs. Before that, waits for
 * another thread that starts or stops the server; returns JOBSCOPE_E_BUSY after 10 s. The first
 * call also waits while other threads load libraries.
 *   options          may be NULL: all defaults
 *   address          receives the bound address, "127.0.0.1:40123"; may be NULL
 *   error            receives the failure and its remedy; may be NULL
 *   ..._size         sizes of the buffers in bytes; longer texts are truncated
 * Returns 0, or a positive error code (JOBSCOPE_E_*).
 * A further call with the same options returns the same server, and so does any call in a process
 * whose server the environment requested (`jobscope run`, JOBSCOPE_LISTEN). If code has started a
 * server with other options, returns JOBSCOPE_E_BUSY, and `address` receives that server's
 * address. */
JOBSCOPE_API int jobscope_server_start(const jobscope_server_options* options, char* address,
                                       size_t address_size, char* error, size_t error_size);

/* Stops the server: ends and delivers a running capture. Blocks for at most 2.8 s. Before
 * that, waits for another thread that starts or stops the server; returns JOBSCOPE_E_BUSY after
 * 10 s. Returns 0 also if no server runs. */
JOBSCOPE_API int jobscope_server_stop(void);

/* Returns 1 if a server runs in this process, otherwise 0, for example after a caller closed it,
 * and from the beginning of a stop. Never blocks. */
JOBSCOPE_API int jobscope_server_running(void);

/* Closes in a forked child what it inherited of the server. The library's own fork handler does
 * that; call it in the child of a fork that may have begun before another thread started the server
 * and ended after, because the C library runs no handlers in it that were registered meanwhile.
 * Does nothing in other processes. Async-signal-safe. */
JOBSCOPE_API void jobscope_forked_child(void);

/* ---- programmatic captures ---- */

typedef struct jobscope_capture_options {
  size_t size;             /* sizeof(jobscope_capture_options) */
  int host_tracer_level;   /* 0 off, 1 user, 2 notable runtime work, 3 verbose; -1: 2 */
  int device_tracer_level; /* 0 off, 1 on; -1: 1 */
  int python_tracer_level; /* 0 off, 1 sampled stacks, 2 calls; -1: 0 */
  /* Memory for the trace, in bytes, 1 MiB to 64 GiB; 0: 256 MiB. Events that exceed it are counted
   * as lost. */
  uint64_t max_trace_bytes;
  /* Lookback in ms, 0 to 3,600,000: also includes the events of this time before the start that the
   * rings still hold. jobscope_capture_steps returns JOBSCOPE_E_INVALID if it is set, because it
   * records only whole steps. */
  uint64_t lookback_ms;
  /* Largest file, in bytes, 64 KiB to 1,900 MiB; 0: 256 MiB. A larger trace is split by time. */
  uint64_t part_limit_bytes;
  /* The frameworks whose own events are recorded: NULL, "" or "auto" (all that the process has
   * loaded), "none", or names, "torch,jax". At most 1,024 bytes. */
  const char* frameworks;
  int record_shapes; /* 1: also the shapes of the inputs of PyTorch's operators */
  /* Selects the tracer for GPUs: NULL, "" or "auto" (JAX or TensorFlow if they use GPUs without
   * PyTorch, otherwise jobscope), "jobscope" or "framework". */
  const char* device_tracer;
  /* NULL, or the levels, frameworks, record_shapes and device_tracer by name, one per line:
   * "record_shapes=1". They replace the fields above; options that are not named take their
   * defaults. At most 4,096 bytes. */
  const char* by_name;
} jobscope_capture_options;

typedef struct jobscope_capture_result {
  size_t size;              /* sizeof(jobscope_capture_result), set by the caller */
  char run_directory[4096]; /* <logdir>/plugins/profile/<run> */
  uint64_t events;
  uint64_t lost; /* UINT64_MAX: unknown, because a collector hung; the trace lacks its end */
} jobscope_capture_result;

/* Starts a capture of this process into `logdir` (at most 4,095 bytes). Creates and checks `logdir`
 * first. `options` may be NULL. Returns 0 when recording has begun, or JOBSCOPE_E_* with a text in
 * `error` (may be NULL; truncated to `error_size` bytes). */
JOBSCOPE_API int jobscope_capture_start(const char* logdir, const jobscope_capture_options* options,
                                        char* error, size_t error_size);
/* Ends the capture and fills `result` (may be NULL). Blocks until the files are on disk. Returns 0,
 * JOBSCOPE_E_STATE if none was started, or the error of the capture. */
JOBSCOPE_API int jobscope_capture_stop(jobscope_capture_result* result, char* error,
                                       size_t error_size);
/* Captures the steps `first` to `last` into `logdir`. Returns 0 when the capture is armed, or
 * JOBSCOPE_E_*: JOBSCOPE_E_STATE if nobody can watch for steps. A thread then starts, ends and
 * writes it, without further calls; jobscope_capture_stop returns the result, or ends it early. */
JOBSCOPE_API int jobscope_capture_steps(const char* logdir, int64_t first, int64_t last,
                                        const jobscope_capture_options* options, char* error,
                                        size_t error_size);

enum {
  JOBSCOPE_OK = 0,
  JOBSCOPE_E_INVALID =
      1, /* an option is out of range or malformed, or a credential file is invalid */
  JOBSCOPE_E_ADDRESS = 2, /* the address cannot be bound */
  JOBSCOPE_E_REFUSED = 3, /* a non-loopback address without credentials, or JOBSCOPE_DISABLE=1 */
  JOBSCOPE_E_BUSY = 4,    /* another server or capture of this process runs, starts or stops */
  JOBSCOPE_E_FORKED = 5,  /* a forked child of a process that had a server */
  JOBSCOPE_E_IO = 6,      /* logdir, disk, directory of JOBSCOPE_PORT_DIR */
  JOBSCOPE_E_STATE = 7,   /* stop without start, or steps that nobody can watch for */
  JOBSCOPE_E_INTERNAL = 8,
};

#ifdef __cplusplus
}
#endif
#endif /* JOBSCOPE_JOBSCOPE_C_H_ */
