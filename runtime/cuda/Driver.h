// The CUDA driver, loaded at run time: one binary serves machines with and without a GPU.
//
// The prototypes are our own, so nothing here needs CUDA's headers. Names and numbers are those of the CUDA Driver
// API 12 and later.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dsv3::cuda {

using DevicePtr = uint64_t;
using Code = int; ///< 0: success

/// A CUtensorMap: 128 bytes whose meaning is the driver's.
struct alignas(64) TensorMapImage {
  unsigned char bytes[128];
};

struct LaunchAttribute {
  int id;
  int pad;
  unsigned value[16];
};
constexpr int kClusterDimension = 4;

struct LaunchConfig {
  unsigned grid[3], block[3], smem;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
};

/// What a machine says about a GPU.
enum DeviceAttribute { kComputeMajor = 75, kComputeMinor = 76, kMostSharedMemory = 97, kMultiprocessors = 16 };
constexpr int kMaxDynamicShared = 8;          ///< of cuFuncSetAttribute
enum JitOption { kErrorLog = 5, kErrorLogBytes = 6 };

/// Errors that mean something to us; others are only text.
enum ErrorCode { kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200, kNoBinary = 209, kUnsupportedPtx = 222 };

class Driver {
public:
  /// Opens $DSV3_CUDA_DRIVER if that is set, else libcuda.so.1, and initialises it. Unsupported error: there is no driver, it
  /// lacks a function that we need (it is too old), or it finds no GPU.
  static Result<std::unique_ptr<Driver>> load();

  /// 13000 for CUDA 13.0.
  int version() const { return versionNumber; }
  std::string versionText() const;

  /// "an illegal memory access was encountered (700)"
  std::string text(Code code) const;
  /// Internal error "WHAT: TEXT" unless `code` is success; out of memory is DoesNotFit.
  Status check(Code code, const char *what) const;

  Code (*cuInit)(unsigned);
  Code (*cuDriverGetVersion)(int *);
  Code (*cuGetErrorString)(Code, const char **);
  Code (*cuDeviceGetCount)(int *);
  Code (*cuDeviceGet)(int *device, int ordinal);
  Code (*cuDeviceGetName)(char *, int bytes, int device);
  Code (*cuDeviceGetAttribute)(int *, int attribute, int device);
  Code (*cuDevicePrimaryCtxRetain)(void **context, int device);
  Code (*cuDevicePrimaryCtxRelease)(int device);
  Code (*cuCtxSetCurrent)(void *context);
  Code (*cuMemGetInfo)(size_t *free, size_t *total);
  Code (*cuMemAlloc)(DevicePtr *, size_t);
  Code (*cuMemFree)(DevicePtr);
  Code (*cuMemHostAlloc)(void **, size_t, unsigned flags);
  Code (*cuMemFreeHost)(void *);
  Code (*cuMemsetD8Async)(DevicePtr, unsigned char, size_t, void *stream);
  Code (*cuMemcpyHtoDAsync)(DevicePtr, const void *, size_t, void *stream);
  Code (*cuMemcpyDtoHAsync)(void *, DevicePtr, size_t, void *stream);
  Code (*cuMemcpyDtoDAsync)(DevicePtr, DevicePtr, size_t, void *stream);
  Code (*cuStreamCreate)(void **, unsigned flags);
  Code (*cuStreamDestroy)(void *);
  Code (*cuStreamSynchronize)(void *);
  Code (*cuEventCreate)(void **, unsigned flags);
  Code (*cuEventDestroy)(void *);
  Code (*cuEventRecord)(void *event, void *stream);
  Code (*cuEventSynchronize)(void *);
  Code (*cuEventElapsedTime)(float *ms, void *from, void *to);
  Code (*cuModuleLoadDataEx)(void **, const void *image, unsigned options, int *names, void **values);
  Code (*cuModuleUnload)(void *);
  Code (*cuModuleGetFunction)(void **, void *module, const char *name);
  Code (*cuFuncSetAttribute)(void *function, int attribute, int value);
  Code (*cuLaunchKernelEx)(const LaunchConfig *, void *function, void **params, void **extra);
  Code (*cuTensorMapEncodeTiled)(TensorMapImage *, int type, unsigned rank, void *address, const uint64_t *dims,
                                 const uint64_t *strides, const unsigned *box, const unsigned *steps,
                                 int interleave, int swizzle, int promotion, int fill);
  Code (*cuStreamBeginCapture)(void *stream, int mode);
  Code (*cuStreamEndCapture)(void *stream, void **graph);
  Code (*cuGraphInstantiate)(void **executable, void *graph, unsigned long long flags);
  Code (*cuGraphDestroy)(void *);
  Code (*cuGraphExecDestroy)(void *);
  Code (*cuGraphLaunch)(void *executable, void *stream);

private:
  Driver() = default;
  Status bind(void *library, const std::string &path);

  int versionNumber = 0;
};

} // namespace dsv3::cuda
