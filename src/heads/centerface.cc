#include "heads/centerface.h"

#include <cstddef>
#include <exception>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>
#include <string>

extern "C" const std::byte sightline_centerface[];
extern "C" const std::byte sightline_centerface_end[];

namespace sightline {
namespace {

// Names that the file gives its outputs.
const char* const kHeatOutput = "537";
const char* const kScaleOutput = "538";
const char* const kOffsetOutput = "539";

cv::dnn::Net ReadNetwork() {
  cv::dnn::Net net = cv::dnn::readNetFromONNX(reinterpret_cast<const char*>(sightline_centerface),
                                              static_cast<size_t>(sightline_centerface_end - sightline_centerface));
  net.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
  net.setPreferableTarget(cv::dnn::DNN_TARGET_CPU);
  // OpenCV 4.6 fuses layers again whenever the input's size changes and computes nonsense from then on.
  net.enableFusion(false);
  return net;
}

cv::Mat PlanarFloats(const Image& image) {
  cv::Mat blob({1, 3, image.height, image.width}, CV_32F);
  const size_t plane = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  float* const out = blob.ptr<float>();
  for (size_t pixel = 0; pixel < plane; ++pixel) {
    for (size_t channel = 0; channel < 3; ++channel) {
      out[channel * plane + pixel] = static_cast<float>(image.rgb[pixel * 3 + channel]);
    }
  }
  return blob;
}

std::vector<float> CopyMap(const cv::Mat& map, int channels, const FaceMaps& maps) {
  SIGHTLINE_CHECK(map.dims == 4 && map.type() == CV_32F && map.isContinuous());
  SIGHTLINE_CHECK(map.size[0] == 1 && map.size[1] == channels);
  SIGHTLINE_CHECK(map.size[2] == maps.height && map.size[3] == maps.width);
  return {map.ptr<float>(), map.ptr<float>() + map.total()};
}

FaceMaps RunNetwork(cv::dnn::Net& net, const Image& input) {
  std::vector<cv::Mat> outputs;
  net.setInput(PlanarFloats(input));
  net.forward(outputs, std::vector<cv::String>{kHeatOutput, kScaleOutput, kOffsetOutput});
  FaceMaps maps;
  maps.width = input.width / CenterFace::kCellSide;
  maps.height = input.height / CenterFace::kCellSide;
  maps.heat = CopyMap(outputs[0], 1, maps);
  maps.scale = CopyMap(outputs[1], 2, maps);
  maps.offset = CopyMap(outputs[2], 2, maps);
  return maps;
}

// The error for the exception that is being handled.
tl::unexpected<Error> FailWithCurrentException() {
  try {
    throw;
  } catch (const cv::Exception& exception) {
    const bool no_memory = exception.code == cv::Error::StsNoMem;
    return Fail(no_memory ? Code::kOutOfMemory : Code::kInternal, "heads: OpenCV failed: " + exception.err);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kOutOfMemory, "heads: no memory for the face detector");
  } catch (const std::exception& exception) {
    return Fail(Code::kInternal, std::string("heads: the face detector failed: ") + exception.what());
  }
}

}  // namespace

struct CenterFace::Network {
  cv::dnn::Net net;
};

CenterFace::CenterFace() : network_(std::make_unique<Network>()) {}
CenterFace::~CenterFace() = default;

Result<std::unique_ptr<CenterFace>> CenterFace::Load() {
  std::unique_ptr<CenterFace> center_face(new CenterFace);
  try {
    cv::setNumThreads(DefaultThreadCount());  // holds for the whole process; nothing else here uses OpenCV
    center_face->network_->net = ReadNetwork();
  } catch (...) {
    return FailWithCurrentException();
  }
  return center_face;
}

Result<FaceMaps> CenterFace::Run(const Image& input) {
  SIGHTLINE_CHECK(input.width > 0 && input.width % kSideMultiple == 0);
  SIGHTLINE_CHECK(input.height > 0 && input.height % kSideMultiple == 0);
  cv::dnn::Net& net = network_->net;
  try {
    if (net.empty()) net = ReadNetwork();
    return RunNetwork(net, input);
  } catch (...) {
    net = cv::dnn::Net();  // a failure may leave it half allocated: the next call reads it again
    return FailWithCurrentException();
  }
}

}  // namespace sightline
