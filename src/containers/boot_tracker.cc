#include <algorithm>

#include "containers/boot_stages.h"

namespace sightline {
namespace {

constexpr size_t kMaxTail = 40;
constexpr size_t kMaxCauses = 50;
constexpr size_t kMaxLineBytes = 2000;  // kept of a line

// Chatter of the wrapper around the server, which speaks of the same things at other times.
bool IsChatter(std::string_view line) {
  return line.find("utils.prompt_client") != std::string_view::npos ||
         line.find("utils.cache_monitor") != std::string_view::npos;
}

bool StartsStage(std::string_view line, const StageRule& rule) {
  for (const std::string_view sign : rule.starts) {
    if (HasSign(line, sign)) return true;
  }
  return false;
}

}  // namespace

BootTracker::BootTracker(std::string_view kind, std::vector<std::string> landmarks)
    : vllm_(kind == "vllm-plugin" || kind == "vllm-fork"), landmarks_(std::move(landmarks)) {
  for (const StageRule& rule : StageRules(vllm_)) {
    stages_.push_back({std::string(rule.active_label), std::string(rule.done_label)});
  }
}

const BootStage* BootTracker::active() const {
  if (current_ < 0) return nullptr;
  const BootStage& stage = stages_[static_cast<size_t>(current_)];
  return stage.state == StageState::kActive ? &stage : nullptr;
}

bool BootTracker::Feed(std::string_view line) {
  if (ready_) return false;
  ready_ = std::any_of(landmarks_.begin(), landmarks_.end(),
                       [line](const std::string& landmark) { return line.find(landmark) != std::string_view::npos; });
  if (ready_) {
    for (BootStage& stage : stages_) {
      if (stage.state == StageState::kActive) stage.state = StageState::kDone;
      if (stage.state == StageState::kWaiting) stage.state = StageState::kSkipped;
    }
    return true;
  }
  if (IsChatter(line)) return false;
  tail_.emplace_back(line.substr(0, kMaxLineBytes));
  if (tail_.size() > kMaxTail) tail_.erase(tail_.begin());
  if (NamesACause(line) && causes_.size() < kMaxCauses) causes_.emplace_back(line.substr(0, kMaxLineBytes));
  const bool advanced = Advance(line);
  return Count(line) || advanced;
}

// Begins a later stage, ends the one that runs, reads what the line tells of it.
bool BootTracker::Advance(std::string_view line) {
  const auto rules = StageRules(vllm_);
  bool changed = false;
  for (size_t next = static_cast<size_t>(current_ + 1); next < rules.size(); ++next) {
    if (!StartsStage(line, rules[next])) continue;
    for (size_t before = 0; before < next; ++before) {
      BootStage& stage = stages_[before];
      if (stage.state == StageState::kActive) stage.state = StageState::kDone;
      if (stage.state == StageState::kWaiting) stage.state = StageState::kSkipped;
    }
    stages_[next].state = StageState::kActive;
    current_ = static_cast<int>(next);
    changed = true;
    break;
  }
  if (current_ < 0) return changed;
  const StageRule& rule = rules[static_cast<size_t>(current_)];
  BootStage& stage = stages_[static_cast<size_t>(current_)];
  if (std::string detail = rule.detail(line); !detail.empty() && detail != stage.detail) {
    stage.detail = std::move(detail);
    changed = true;
  }
  if (stage.state == StageState::kActive && !rule.done.empty() && HasSign(line, rule.done)) {
    stage.state = StageState::kDone;
    changed = true;
  }
  return changed;
}

bool BootTracker::Count(std::string_view line) {
  uint64_t done = 0, total = 0;
  if (active() == nullptr || !ReadCounts(line, &done, &total)) return false;
  BootStage& stage = stages_[static_cast<size_t>(current_)];
  const bool changed = stage.done != done || stage.total != total;
  stage.done = done;
  stage.total = total;
  return changed;
}

Result<BootEnd> FollowBoot(const ContainerEngine& engine, const std::string& name, BootTracker* tracker,
                           std::chrono::milliseconds deadline, const std::function<void(bool changed)>& changed,
                           std::stop_token stop) {
  const auto started = std::chrono::steady_clock::now();
  ProcessLimits limits;
  limits.timeout = std::max(deadline, std::chrono::milliseconds(1));
  limits.grace = std::chrono::seconds(1);  // of `logs`, which has nothing to finish
  limits.stop = std::move(stop);
  const auto feed = [&](std::string_view line) {
    const bool any = tracker->Feed(line);
    if (changed) changed(any);
    return !tracker->ready();
  };
  SIGHTLINE_ASSIGN_OR_RETURN(const StreamResult result, StreamProcess(engine.LogsCommand(name, true), limits, feed));
  BootEnd end;
  switch (result.end) {
    case StreamEnd::kSatisfied:
      end.kind = BootEndKind::kReady;
      break;
    case StreamEnd::kDeadline:
      end.kind = BootEndKind::kDeadline;
      break;
    case StreamEnd::kCancelled:
      end.kind = BootEndKind::kCancelled;
      break;
    case StreamEnd::kExited:
      end.kind = BootEndKind::kExited;
      end.exit_code = engine.ExitCode(name).value_or(result.exit_code);
      break;
  }
  using std::chrono::milliseconds;
  end.elapsed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - started);
  return end;
}

}  // namespace sightline
