// JSON documents as text, and the pieces that answers of all models share.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"

namespace sightline {

using Json = nlohmann::ordered_json;

// Python's round(value, decimals): the decimal text nearest to the exact value, ties to even, read back.
double Round(double value, int decimals);
// The double whose shortest text is the shortest text of `value`: 0.1f gives 0.1.
double Shortest(float value);

// The document on one line. A number that is no integer is the shortest text that reads back as it, with a point or an
// exponent; no locale changes that. NaN and infinity become null, bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const Json& document);

Json TextOrNull(const std::string& text);
// Appends {"code", "message", "param"} objects to a list: of DecodedImage::warnings about the picture `param`, and of a
// request's.
void AddPictureWarnings(const std::vector<std::string>& warnings, const std::string& param, Json* list);
void AddWarnings(const std::vector<Warning>& warnings, Json* list);
// Since `received` where it is known, else `otherwise`.
double TotalMilliseconds(std::optional<std::chrono::steady_clock::time_point> received, double otherwise);

}  // namespace sightline
