// Templates: NVlabs/Eagle locateanything_worker.py and the model card; layout: processing_locateanything.py,
// py_apply_chat_template, which training used ("assistant.\n<|im_end|>", where chat_template.json has no newline).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pipeline/pipeline.h"
#include "pipeline/unicode_classes.h"

namespace sightline {
namespace {

constexpr std::string_view kSystem = "You are a helpful assistant.\n";
constexpr std::string_view kSeparator = "</c>";

struct Template {
  LocateTask task;
  std::string_view name;
  std::string_view before, after;  // what stands around the query
};
constexpr std::array kTemplates{
    Template{LocateTask::kDetect, "detect", "Locate all the instances that matches the following description: ", "."},
    Template{LocateTask::kGroundOne, "ground_one",
             "Locate a single instance that matches the following description: ", "."},
    Template{LocateTask::kGroundAll, "ground_all",
             "Locate all the instances that match the following description: ", "."},
    Template{LocateTask::kPoint, "point", "Point to: ", "."},
    Template{LocateTask::kReadText, "read_text", "Detect all the text in box format.", ""},
    Template{LocateTask::kFindText, "find_text", "Please locate the text referred as ", "."},
    Template{LocateTask::kGuiBox, "gui_box", "Locate the region that matches the following description: ", "."},
    Template{LocateTask::kGuiPoint, "gui_point", "Point to: ", "."},
    Template{LocateTask::kRaw, "raw", "", ""},
};

const Template& TemplateOf(LocateTask task) { return kTemplates[static_cast<size_t>(task)]; }

tl::unexpected<Error> BadQuery(std::string message) { return Fail(Code::kInvalidRequest, std::move(message), "query"); }

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t end; (end = text.find(kSeparator)) != std::string_view::npos;) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + kSeparator.size());
  }
  parts.emplace_back(text);
  return parts;
}

// Here and not where the whole prompt is encoded, whose bytes nobody has seen.
Status CheckUtf8(std::span<const std::string> query) {
  for (size_t i = 0; i < query.size(); ++i) {
    if (const size_t invalid = FindInvalidUtf8(query[i]); invalid != std::string::npos) {
      const std::string which = query.size() == 1 ? "query" : fmt::format("query: text {}", i + 1);
      return Fail(Code::kInvalidUtf8, fmt::format("{} is not UTF-8 at byte {}", which, invalid), "query");
    }
  }
  return {};
}

Result<std::vector<std::string>> Categories(const std::vector<std::string>& query) {
  std::vector<std::string> categories;
  for (const std::string& text : query) std::ranges::move(Split(text), std::back_inserter(categories));
  if (categories.empty()) return BadQuery("query has no categories, expected at least one");
  for (size_t i = 0; i < categories.size(); ++i) {
    if (StripSpace(categories[i]).empty()) return BadQuery(fmt::format("query: category {} is empty", i + 1));
  }
  return categories;
}

// The parts of the question's text between which "</c>" stands as a token.
Result<std::vector<std::string>> QuestionParts(const LocateQuestion& question) {
  const size_t expected = question.task == LocateTask::kReadText ? 0 : 1;
  if (question.task == LocateTask::kDetect) return Categories(question.query);
  if (question.query.size() != expected) {
    return BadQuery(fmt::format("query has {} texts, expected {} for the task {}", question.query.size(),
                                expected == 0 ? "none" : "one", NameOf(question.task)));
  }
  if (question.task == LocateTask::kReadText) return std::vector<std::string>{""};
  if (question.task == LocateTask::kRaw) return Split(question.query[0]);
  if (StripSpace(question.query[0]).empty()) return BadQuery("query is empty, expected some text");
  return question.query;
}

// Collects ids: text between tokens is encoded as one piece, as the official tokenizer does.
class PromptWriter {
 public:
  PromptWriter(const Tokenizer& tokenizer, const LocateTokens& tokens, AddedTokens added)
      : tokenizer_(tokenizer), tokens_(tokens), added_(added) {}

  void Text(std::string_view text) { text_ += text; }

  Status Token(TokenId id, int64_t count = 1) {
    SIGHTLINE_RETURN_IF_ERROR(Flush());
    prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(count), id);
    return {};
  }

  // "<image 1><img>...</img>"; `picture` counts from 0.
  Status Picture(size_t picture, int64_t count) {
    Text(fmt::format("<image {}>", picture + 1));
    SIGHTLINE_RETURN_IF_ERROR(Token(tokens_.image_start));
    SIGHTLINE_RETURN_IF_ERROR(Token(tokens_.image, count));
    SIGHTLINE_RETURN_IF_ERROR(Token(tokens_.image_end));
    prompt.pictures.push_back(picture);
    return {};
  }

  Status Flush() {
    if (text_.empty()) return {};
    SIGHTLINE_ASSIGN_OR_RETURN(const auto ids, tokenizer_.Encode(text_, added_));
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    text_.clear();
    return {};
  }

  LocatePrompt prompt;

 private:
  const Tokenizer& tokenizer_;
  const LocateTokens& tokens_;
  const AddedTokens added_;
  std::string text_;
};

Status WriteQuestion(const Tokenizer& tokenizer, const Template& around, std::span<const std::string> parts,
                     PromptWriter* writer) {
  const auto separator = tokenizer.FindAdded(kSeparator);
  if (parts.size() > 1 && !separator) {
    return Fail(Code::kCorruptWeights, "tokenizer: has no token </c>, which separates categories");
  }
  writer->Text(around.before);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) SIGHTLINE_RETURN_IF_ERROR(writer->Token(*separator));
    writer->Text(parts[i]);
  }
  writer->Text(around.after);
  return {};
}

Status WriteOpening(const LocateQuestion& question, const LocateTokens& tokens, PromptWriter* writer) {
  SIGHTLINE_RETURN_IF_ERROR(writer->Token(tokens.message_start));
  writer->Text("system\n");
  writer->Text(question.system ? *question.system : kSystem);
  SIGHTLINE_RETURN_IF_ERROR(writer->Token(tokens.message_end));
  writer->Text("\n");
  SIGHTLINE_RETURN_IF_ERROR(writer->Token(tokens.message_start));
  writer->Text("user\n");
  return {};
}

Status WriteClosing(const LocateTokens& tokens, PromptWriter* writer) {
  SIGHTLINE_RETURN_IF_ERROR(writer->Token(tokens.message_end));
  writer->Text("\n");
  SIGHTLINE_RETURN_IF_ERROR(writer->Token(tokens.message_start));
  writer->Text("assistant\n");
  return writer->Flush();
}

// ---- the official reading of raw text

// "<image-2>" or "<video-1>" somewhere in a text.
struct Reference {
  size_t begin = 0, end = 0;
  bool video = false;
  uint64_t number = 0;  // no more than kLargest
  static constexpr uint64_t kLargest = 1000000;
};

std::optional<Reference> ReferenceAt(std::string_view text, size_t begin) {
  const std::string_view rest = text.substr(begin);
  const bool video = rest.starts_with("<video-");
  if (!video && !rest.starts_with("<image-")) return std::nullopt;
  Reference reference{begin, begin + 7, video};
  bool digits = false;
  while (reference.end < text.size()) {
    const Character character = FirstCharacter(text.substr(reference.end));
    const auto digit = DecimalDigit(character.code);
    if (!digit) break;
    digits = true;
    reference.number = std::min(10 * reference.number + static_cast<uint64_t>(*digit), Reference::kLargest);
    reference.end += character.length;
  }
  if (!digits || reference.end == text.size() || text[reference.end] != '>') return std::nullopt;
  ++reference.end;
  return reference;
}

std::optional<Reference> NextReference(std::string_view text, size_t from) {
  for (size_t at = text.find('<', from); at != std::string_view::npos; at = text.find('<', at + 1)) {
    if (const auto reference = ReferenceAt(text, at)) return reference;
  }
  return std::nullopt;
}

Status WriteReferences(std::string_view text, std::span<const int64_t> picture_tokens, PromptWriter* writer) {
  size_t written = 0;
  while (const auto reference = NextReference(text, written)) {
    const std::string_view name = text.substr(reference->begin, reference->end - reference->begin);
    if (reference->video) return BadQuery(fmt::format("query names {}, expected pictures only", name));
    if (reference->number == 0 || reference->number > picture_tokens.size()) {
      return BadQuery(fmt::format("query names {}, expected a picture from 1 to {}", name, picture_tokens.size()));
    }
    writer->Text(text.substr(written, reference->begin - written));
    const auto picture = static_cast<size_t>(reference->number - 1);
    SIGHTLINE_RETURN_IF_ERROR(writer->Picture(picture, picture_tokens[picture]));
    written = reference->end;
  }
  writer->Text(text.substr(written));
  return {};
}

Result<LocatePrompt> MakeReferencePrompt(const Tokenizer& tokenizer, const LocateTokens& tokens,
                                         const LocateQuestion& question, std::span<const int64_t> picture_tokens) {
  if (question.query.size() != 1) return BadQuery("query has no single text, expected one for the task raw");
  const std::string& text = question.query[0];
  std::string unnamed;  // pictures that the text does not place
  for (size_t i = 0; i < picture_tokens.size(); ++i) {
    const std::string name = fmt::format("<image-{}>", i + 1);
    if (text.find(name) == std::string::npos) unnamed += name;
  }
  PromptWriter writer(tokenizer, tokens, AddedTokens::kMatch);
  SIGHTLINE_RETURN_IF_ERROR(WriteReferences(
      fmt::format("<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n{}{}<|im_end|>\n<|im_start|>assistant\n",
                  question.system ? *question.system : kSystem, unnamed, text),
      picture_tokens, &writer));
  SIGHTLINE_RETURN_IF_ERROR(writer.Flush());
  return std::move(writer.prompt);
}

}  // namespace

std::string_view NameOf(LocateTask task) { return TemplateOf(task).name; }

Result<LocateTask> ParseLocateTask(std::string_view name) {
  for (const Template& known : kTemplates) {
    if (known.name == name) return known.task;
  }
  return Fail(
      Code::kInvalidRequest,
      fmt::format("task is \"{}\", expected detect, ground_one, ground_all, point, read_text, find_text, gui_box, "
                  "gui_point or raw",
                  name),
      "task");
}

Result<LocatePrompt> MakeLocatePrompt(const Tokenizer& tokenizer, const LocateTokens& tokens,
                                      const LocateQuestion& question, std::span<const int64_t> picture_tokens) {
  SIGHTLINE_RETURN_IF_ERROR(CheckUtf8(question.query));
  if (question.task == LocateTask::kRaw && question.reference) {
    return MakeReferencePrompt(tokenizer, tokens, question, picture_tokens);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::string> parts, QuestionParts(question));
  PromptWriter writer(tokenizer, tokens, AddedTokens::kOrdinaryText);
  SIGHTLINE_RETURN_IF_ERROR(WriteOpening(question, tokens, &writer));
  for (size_t i = 0; i < picture_tokens.size(); ++i) {
    SIGHTLINE_RETURN_IF_ERROR(writer.Picture(i, picture_tokens[i]));
  }
  if (!picture_tokens.empty()) writer.prompt.shared = std::ssize(writer.prompt.ids);
  SIGHTLINE_RETURN_IF_ERROR(WriteQuestion(tokenizer, TemplateOf(question.task), parts, &writer));
  SIGHTLINE_RETURN_IF_ERROR(WriteClosing(tokens, &writer));
  if (question.task == LocateTask::kDetect) writer.prompt.categories = parts;
  return std::move(writer.prompt);
}

Status CheckPictureTokens(const LocatePrompt& prompt, const LocateTokens& tokens,
                          std::span<const int64_t> picture_tokens) {
  if (prompt.pictures.empty())
    return Fail(Code::kInvalidRequest, "prompt has no picture, expected at least one", "image");
  int64_t expected = 0;
  for (const size_t picture : prompt.pictures) expected += picture_tokens[picture];
  const int64_t found = std::ranges::count(prompt.ids, tokens.image);
  if (found == expected) return {};
  return BadQuery(fmt::format("query holds {} <IMG_CONTEXT> of its own, expected none", found - expected));
}

}  // namespace sightline
