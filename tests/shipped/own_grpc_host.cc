// SPDX-License-Identifier: Apache-2.0
//
// A program with a gRPC and a protobuf of its own, the same message and service names as ours (full
// protobuf, so its descriptors are registered), and a profiler service of its own: the hardest
// neighbour libjobscope.so can have.
//
//   own_grpc_host LIBRARY before|after   loads ours before or after its own server runs, and calls
//                                        both; exit code 0
//
// Compiled with JOBSCOPE_LINKED, the library is linked instead, and LIBRARY is not looked at.
#include <dlfcn.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "jobscope/jobscope_c.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace {

void Require(bool condition, const char* what, const std::string& detail = "") {
  if (condition) return;
  fprintf(stderr, "own_grpc_host: %s %s\n", what, detail.c_str());
  exit(1);
}

class OwnService final : public tensorflow::ProfilerService::Service {
  grpc::Status Monitor(grpc::ServerContext* /*context*/,
                       const tensorflow::MonitorRequest* /*request*/,
                       tensorflow::MonitorResponse* response) override {
    response->set_data("the host's own");
    return grpc::Status::OK;
  }
};

std::unique_ptr<grpc::Server> StartOwn(OwnService* service, std::string* address) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Require(server != nullptr, "the host's own server does not start");
  *address = "127.0.0.1:" + std::to_string(port);
  return server;
}

std::string StartOurs(const char* library) {
#if defined(JOBSCOPE_LINKED)
  (void)library;
  const auto start = &jobscope_server_start;
#else
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Require(false, "dlopen:", dlerror());
  const auto start =
      reinterpret_cast<decltype(&jobscope_server_start)>(dlsym(handle, "jobscope_server_start"));
  Require(start != nullptr, "no jobscope_server_start");
#endif
  jobscope_server_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.address = "127.0.0.1:0";
  char address[256] = "";
  char error[1024] = "";
  const int code = start(&options, address, sizeof(address), error, sizeof(error));
  Require(code == JOBSCOPE_OK, "our server does not start:", error);
  return address;
}

std::unique_ptr<tensorflow::ProfilerService::Stub> Connect(const std::string& address) {
  return tensorflow::ProfilerService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

std::string MonitorData(const std::string& address) {
  grpc::ClientContext context;
  SetDeadline(&context);
  tensorflow::MonitorRequest request;
  request.set_duration_ms(10);
  tensorflow::MonitorResponse response;
  const grpc::Status status = Connect(address)->Monitor(&context, request, &response);
  Require(status.ok(), "Monitor:", status.error_message());
  return response.data();
}

// A trace of ours, read with the host's protobuf.
void ProfileOurs(const std::string& address) {
  grpc::ClientContext context;
  SetDeadline(&context);
  tensorflow::ProfileRequest request;
  request.set_duration_ms(100);
  request.mutable_opts()->set_host_tracer_level(2);
  tensorflow::ProfileResponse response;
  const grpc::Status status = Connect(address)->Profile(&context, request, &response);
  Require(status.ok(), "Profile:", status.error_message());
  for (const auto& tool : response.tool_data()) {
    tensorflow::profiler::XSpace space;
    Require(space.ParseFromString(tool.data()), "the trace does not parse");
  }
}

void UseDescriptors() {
  Require(tensorflow::profiler::XSpace::descriptor()->full_name() == "tensorflow.profiler.XSpace",
          "descriptor of XSpace");
  tensorflow::profiler::XSpace space;
  space.add_hostnames("host");
  const std::string text = space.ShortDebugString();
  Require(text.find("host") != std::string::npos, "reflection over XSpace:", text);
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 3, "usage: own_grpc_host LIBRARY before|after");
  const bool before = strcmp(argv[2], "before") == 0;
  OwnService service;
  std::string own_address;
  std::unique_ptr<grpc::Server> own;
  std::string our_address;
  if (before) our_address = StartOurs(argv[1]);
  UseDescriptors();
  own = StartOwn(&service, &own_address);
  Require(MonitorData(own_address) == "the host's own", "the host's own service answers wrongly");
  if (!before) our_address = StartOurs(argv[1]);

  for (int i = 0; i < 3; ++i) {
    Require(MonitorData(own_address) == "the host's own", "the host's own service answers wrongly");
    Require(MonitorData(our_address) != "the host's own", "ours is served by the host's");
    ProfileOurs(our_address);
  }
  UseDescriptors();
  own->Shutdown();
  // Leaves with our server running, through the exit handlers of both copies of gRPC.
  return 0;
}
