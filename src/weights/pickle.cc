#include "weights/pickle.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <unordered_map>

#include "weights/byte_cursor.h"
#include "weights/checkpoint_formats.h"

namespace sightline {
namespace {

using Kind = PickleValue::Kind;

// ViT-L takes 11,000 opcodes, a stack of 700 values and 3 marks.
constexpr size_t kMaxOpcodes = 1 << 20, kMaxStack = 1 << 16, kMaxMarks = 256, kMaxString = 1 << 16, kMaxLine = 256;

enum class Role : uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kStorageClass };
struct Symbol {
  std::string_view module, name;
  Role role;
  DType dtype = DType::kF32;
};
// Everything a pickle may name.
constexpr Symbol kSymbols[] = {
    {"collections", "OrderedDict", Role::kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", Role::kRebuildTensor},
    {"torch._utils", "_rebuild_parameter", Role::kRebuildParameter},
    {"torch", "DoubleStorage", Role::kStorageClass, DType::kF64},
    {"torch", "FloatStorage", Role::kStorageClass, DType::kF32},
    {"torch", "HalfStorage", Role::kStorageClass, DType::kF16},
    {"torch", "BFloat16Storage", Role::kStorageClass, DType::kBF16},
    {"torch", "LongStorage", Role::kStorageClass, DType::kI64},
    {"torch", "IntStorage", Role::kStorageClass, DType::kI32},
    {"torch", "ShortStorage", Role::kStorageClass, DType::kI16},
    {"torch", "CharStorage", Role::kStorageClass, DType::kI8},
    {"torch", "ByteStorage", Role::kStorageClass, DType::kU8},
    {"torch", "BoolStorage", Role::kStorageClass, DType::kBool},
};

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, std::string_view source)
      : cursor_(bytes.first(std::min(bytes.size(), kMaxPickleBytes))),
        cut_(bytes.size() > kMaxPickleBytes),
        source_(source) {}

  Result<Pickle> Run() {
    uint8_t opcode = 0, protocol = 0;
    if (!cursor_.Read(&opcode, &protocol) || opcode != 0x80) return Bad("does not begin with a protocol");
    if (protocol < 2 || protocol > 5) return Bad(fmt::format("has protocol {}, expected 2 to 5", protocol));
    for (size_t count = 0; count < kMaxOpcodes; ++count) {
      if (!cursor_.Read(&opcode)) return Short();
      if (opcode == '.') return Stop();
      SIGHTLINE_RETURN_IF_ERROR(Step(opcode));
    }
    return Bad(fmt::format("has more than {} opcodes", kMaxOpcodes));
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    return Corrupt(source_, fmt::format("the pickle {}", what));
  }
  tl::unexpected<Error> Short() const {
    if (cut_) return Bad(fmt::format("is longer than {} bytes", kMaxPickleBytes));
    return Bad("ends without STOP; the file is cut short or damaged");
  }

  Result<Pickle> Stop() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return Bad(fmt::format("leaves {} values and {} marks, expected one value", stack_.size(), marks_.size()));
    }
    pickle_.top = stack_[0];
    pickle_.size = cursor_.position();
    return std::move(pickle_);
  }

  Status Step(uint8_t opcode) {
    switch (opcode) {
      case '(':  // MARK
        return Mark();
      case ')':  // EMPTY_TUPLE
        return PushContainer(Kind::kTuple, 0);
      case ']':  // EMPTY_LIST
        return PushContainer(Kind::kList, 0);
      case '}':  // EMPTY_DICT
        return PushContainer(Kind::kDict, 0);
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return PushContainer(Kind::kTuple, opcode - 0x84u);
      case 't':  // TUPLE
        return TupleFromMark();
      case 's':  // SETITEM
        return Fill(Target::kDictionary, 2);
      case 'u':  // SETITEMS
        return FillFromMark(Target::kDictionary);
      case 'a':  // APPEND
        return Fill(Target::kList, 1);
      case 'e':  // APPENDS
        return FillFromMark(Target::kList);
      case 'N':  // NONE
        return Push(Kind::kNone);
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return Push(Kind::kBool, opcode == 0x88);
      case 'K':  // BININT1
        return PushInteger<uint8_t>();
      case 'M':  // BININT2
        return PushInteger<uint16_t>();
      case 'J':  // BININT
        return PushInteger<int32_t>();
      case 0x8a:  // LONG1
        return PushLong();
      case 'G':  // BINFLOAT
        return PushFloat();
      case 'U':   // SHORT_BINSTRING
      case 0x8c:  // SHORT_BINUNICODE
        return PushString<uint8_t>();
      case 'X':  // BINUNICODE
        return PushString<uint32_t>();
      default:
        return StepOther(opcode);
    }
  }

  Status StepOther(uint8_t opcode) {
    switch (opcode) {
      case 'q':  // BINPUT
        return Put<uint8_t>();
      case 'r':  // LONG_BINPUT
        return Put<uint32_t>();
      case 0x94:  // MEMOIZE
        return PutAt(memo_.size());
      case 'h':  // BINGET
        return Get<uint8_t>();
      case 'j':  // LONG_BINGET
        return Get<uint32_t>();
      case 0x95:  // FRAME
        return Frame();
      case 'c':  // GLOBAL
        return Global();
      case 0x93:  // STACK_GLOBAL
        return StackGlobal();
      case 'i':  // INST, for the sake of a message that names what it asks for
        SIGHTLINE_RETURN_IF_ERROR(Global());
        break;
      case 'Q':  // BINPERSID
        return PersistentId();
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return Call(opcode == 0x81);
      case 'b':  // BUILD
        return Build();
      default:
        break;
    }
    return Bad(fmt::format("has opcode 0x{:02x}, which no dictionary of tensors needs", opcode));
  }

  // --- stack

  Status Push(Kind kind, int64_t number = 0, std::string_view text = {}) {
    return Push(PickleValue{kind, number, text});
  }
  Status Push(const PickleValue& value) {
    if (stack_.size() >= kMaxStack) return Bad(fmt::format("stacks more than {} values", kMaxStack));
    stack_.push_back(value);
    return {};
  }
  // Values above the last mark.
  size_t Available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Result<PickleValue> Pop() {
    if (Available() == 0) return Bad("takes a value from an empty stack");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Status Mark() {
    if (marks_.size() >= kMaxMarks) return Bad(fmt::format("nests more than {} levels", kMaxMarks));
    marks_.push_back(stack_.size());
    return {};
  }
  // How many values lie above the last mark, which is taken away.
  Result<size_t> TakeMark() {
    if (marks_.empty()) return Bad("ends a group that has not begun");
    const size_t count = Available();
    marks_.pop_back();
    return count;
  }

  template <typename Integer>
  Status PushInteger() {
    Integer value = 0;
    if (!cursor_.Read(&value)) return Short();
    return Push(Kind::kInteger, value);
  }
  Status PushLong() {
    uint8_t size = 0;
    std::string_view text;
    if (!cursor_.Read(&size) || !cursor_.Take(size, &text)) return Short();
    if (size > sizeof(int64_t)) return Push(Kind::kBigInteger, 0, text);
    const bool negative = size > 0 && (text[size - 1u] & 0x80) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[i]);
    return Push(Kind::kInteger, static_cast<int64_t>(value));
  }
  Status PushFloat() {
    std::string_view text;
    if (!cursor_.Take(sizeof(double), &text)) return Short();
    return Push(Kind::kFloat);  // no tensor depends on one
  }
  template <typename Length>
  Status PushString() {
    Length length = 0;
    std::string_view text;
    if (!cursor_.Read(&length)) return Short();
    if (length > kMaxString) {
      return Bad(fmt::format("has a string of {} bytes, at most {} are read", length, kMaxString));
    }
    if (!cursor_.Take(length, &text)) return Short();
    if (!simdjson::validate_utf8(text)) return Bad(fmt::format("has a string that is not UTF-8: {}", Printable(text)));
    return Push(Kind::kString, 0, text);
  }

  // --- containers

  // Makes one of the topmost `count` values and puts it in their place.
  Status PushContainer(Kind kind, size_t count) {
    if (Available() < count) return Bad("takes a value from an empty stack");
    const auto first = stack_.end() - static_cast<ptrdiff_t>(count);
    pickle_.containers.emplace_back(first, stack_.end());
    stack_.erase(first, stack_.end());
    return Push(kind, static_cast<int64_t>(pickle_.containers.size() - 1));
  }
  Status TupleFromMark() {
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, TakeMark());
    return PushContainer(Kind::kTuple, count);
  }
  // Moves the topmost `count` values into the container below them.
  enum class Target { kList, kDictionary };
  Status Fill(Target target, size_t count) {
    if (Available() < count + 1) return Bad("fills a container that is not there");
    const auto first = stack_.end() - static_cast<ptrdiff_t>(count);
    const PickleValue container = *(first - 1);
    const bool is_dictionary = container.kind == Kind::kDict || container.kind == Kind::kOrderedDict;
    if (target == Target::kDictionary ? !is_dictionary : container.kind != Kind::kList) {
      return Bad(fmt::format("adds items to {}", NameOf(container.kind)));
    }
    if (is_dictionary && count % 2 != 0) return Bad("has a dictionary key without a value");
    std::vector<PickleValue>& items = Items(container);
    items.insert(items.end(), first, stack_.end());
    stack_.erase(first, stack_.end());
    return {};
  }
  Status FillFromMark(Target target) {
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, TakeMark());
    return Fill(target, count);
  }
  std::vector<PickleValue>& Items(const PickleValue& container) {
    return pickle_.containers[static_cast<size_t>(container.number)];
  }

  // --- memo

  template <typename Index>
  Status Put() {
    Index index = 0;
    if (!cursor_.Read(&index)) return Short();
    return PutAt(index);
  }
  Status PutAt(size_t index) {
    if (Available() == 0) return Bad("remembers a value of an empty stack");
    memo_[index] = stack_.back();
    return {};
  }
  template <typename Index>
  Status Get() {
    Index index = 0;
    if (!cursor_.Read(&index)) return Short();
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Bad(fmt::format("recalls value {}, which it never remembered", index));
    return Push(found->second);
  }
  Status Frame() {
    uint64_t size = 0;
    if (!cursor_.Read(&size)) return Short();
    return size > cursor_.remaining() ? Short() : Status{};
  }

  // --- symbols and calls

  Status Global() {
    std::string_view module, name;
    if (!TakeLine(&module) || !TakeLine(&name)) return Bad("has a symbol name without an end");
    return PushSymbol(module, name);
  }
  bool TakeLine(std::string_view* line) {
    ByteCursor ahead = cursor_;
    std::string_view text;
    ahead.Take(std::min(ahead.remaining(), kMaxLine), &text);
    const size_t end = text.find('\n');
    return end != text.npos && cursor_.Take(end + 1, line) && (line->remove_suffix(1), true);
  }
  Status StackGlobal() {
    SIGHTLINE_ASSIGN_OR_RETURN(const PickleValue name, Pop());
    SIGHTLINE_ASSIGN_OR_RETURN(const PickleValue module, Pop());
    if (name.kind != Kind::kString || module.kind != Kind::kString) {
      return Bad("names a symbol by something else than text");
    }
    return PushSymbol(module.text, name.text);
  }
  Status PushSymbol(std::string_view module, std::string_view name) {
    const Symbol* found = std::ranges::find_if(
        kSymbols, [&](const Symbol& symbol) { return symbol.module == module && symbol.name == name; });
    if (found != std::end(kSymbols)) return Push(Kind::kSymbol, found - kSymbols);
    return Bad(fmt::format("asks for {}.{}; only tensors are read", Printable(module), Printable(name)));
  }

  // ("storage", class, key, location, elements) and, in old files, a sixth: None or (key, offset, elements) of a
  // window.
  Status PersistentId() {
    SIGHTLINE_ASSIGN_OR_RETURN(const PickleValue id, Pop());
    if (id.kind != Kind::kTuple) return Bad("has a storage record that is no tuple");
    const std::vector<PickleValue>& fields = Items(id);
    if ((fields.size() != 5 && fields.size() != 6) || fields[0].kind != Kind::kString || fields[0].text != "storage" ||
        fields[1].kind != Kind::kSymbol || SymbolOf(fields[1]).role != Role::kStorageClass ||
        fields[2].kind != Kind::kString || fields[4].kind != Kind::kInteger) {
      return Bad("has a storage record of an unknown form");
    }
    PickleStorage storage{SymbolOf(fields[1]).dtype, fields[2].text, fields[4].number, 0, fields[4].number};
    if (storage.elements < 0) return Bad(fmt::format("has a storage of {} elements", storage.elements));
    if (fields.size() == 6 && fields[5].kind != Kind::kNone) SIGHTLINE_RETURN_IF_ERROR(ReadWindow(fields[5], &storage));
    pickle_.storages.push_back(storage);
    return Push(Kind::kStorage, static_cast<int64_t>(pickle_.storages.size() - 1));
  }
  Status ReadWindow(const PickleValue& record, PickleStorage* storage) {
    if (record.kind != Kind::kTuple) return Bad("has a storage window that is no tuple");
    const std::vector<PickleValue>& fields = Items(record);
    if (fields.size() != 3 || fields[1].kind != Kind::kInteger || fields[2].kind != Kind::kInteger) {
      return Bad("has a storage window of an unknown form");
    }
    const int64_t offset = fields[1].number, elements = fields[2].number;
    if (offset < 0 || elements < 0 || offset > storage->elements || elements > storage->elements - offset) {
      return Bad(
          fmt::format("has a window of {} elements at {} in a storage of {}", elements, offset, storage->elements));
    }
    storage->window_offset = offset;
    storage->window_elements = elements;
    return {};
  }

  static const Symbol& SymbolOf(const PickleValue& value) { return kSymbols[value.number]; }

  Status Call(bool as_new_object) {
    SIGHTLINE_ASSIGN_OR_RETURN(const PickleValue arguments, Pop());
    SIGHTLINE_ASSIGN_OR_RETURN(const PickleValue function, Pop());
    if (function.kind != Kind::kSymbol) return Bad(fmt::format("calls {}", NameOf(function.kind)));
    if (arguments.kind != Kind::kTuple) return Bad(fmt::format("calls with {} as arguments", NameOf(arguments.kind)));
    const Symbol& symbol = SymbolOf(function);
    if (symbol.role == Role::kOrderedDict && Items(arguments).empty()) return PushContainer(Kind::kOrderedDict, 0);
    if (symbol.role == Role::kRebuildTensor && !as_new_object) return RebuildTensor(Items(arguments));
    if (symbol.role == Role::kRebuildParameter && !as_new_object) return RebuildParameter(Items(arguments));
    return Bad(fmt::format("calls {}.{} in an unknown way", symbol.module, symbol.name));
  }
  // (storage, offset, sizes, strides, requires_grad, hooks) and perhaps a dictionary of marks (conjugate, negative)
  // that change what the elements mean.
  Status RebuildTensor(const std::vector<PickleValue>& arguments) {
    if (arguments.size() < 6 || arguments.size() > 7 || arguments[0].kind != Kind::kStorage ||
        arguments[1].kind != Kind::kInteger) {
      return Bad("has a tensor record of an unknown form");
    }
    if (arguments.size() == 7 && (arguments[6].kind != Kind::kDict || !Items(arguments[6]).empty())) {
      return Bad("has a tensor with metadata, which is not read");
    }
    PickleTensor tensor{static_cast<size_t>(arguments[0].number), arguments[1].number, {}, {}};
    SIGHTLINE_RETURN_IF_ERROR(ReadIntegers(arguments[2], &tensor.shape));
    SIGHTLINE_RETURN_IF_ERROR(ReadIntegers(arguments[3], &tensor.strides));
    pickle_.tensors.push_back(std::move(tensor));
    return Push(Kind::kTensor, static_cast<int64_t>(pickle_.tensors.size() - 1));
  }
  Status ReadIntegers(const PickleValue& tuple, std::vector<int64_t>* integers) {
    if (tuple.kind != Kind::kTuple) return Bad(fmt::format("has {} where a tuple of sizes is due", NameOf(tuple.kind)));
    if (Items(tuple).size() > kMaxRank) {
      return Bad(fmt::format("has a tensor of {} dimensions, at most {} are read", Items(tuple).size(), kMaxRank));
    }
    for (const PickleValue& item : Items(tuple)) {
      if (item.kind != Kind::kInteger) return Bad(fmt::format("has {} where a size is due", NameOf(item.kind)));
      integers->push_back(item.number);
    }
    return {};
  }
  // (tensor, requires_grad, hooks)
  Status RebuildParameter(const std::vector<PickleValue>& arguments) {
    if (arguments.size() != 3 || arguments[0].kind != Kind::kTensor) return Bad("has a parameter of an unknown form");
    return Push(arguments[0]);
  }
  // Sets attributes: of an ordered dictionary only, where it is `_metadata` and of no use to us.
  Status Build() {
    SIGHTLINE_RETURN_IF_ERROR(Pop());
    if (Available() == 0) return Bad("sets attributes of an empty stack");
    if (stack_.back().kind == Kind::kOrderedDict) return {};
    return Bad(fmt::format("sets attributes of {}, expected an ordered dictionary", NameOf(stack_.back().kind)));
  }

  ByteCursor cursor_;
  bool cut_;
  std::string_view source_;
  Pickle pickle_;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<size_t, PickleValue> memo_;
};

}  // namespace

std::string_view NameOf(Kind kind) {
  constexpr std::string_view kNames[] = {
      "None",     "a boolean", "an integer", "a large integer", "a number",
      "a string", "a tuple",   "a list",     "a dictionary",    "an ordered dictionary",
      "a symbol", "a storage", "a tensor"};
  return kNames[static_cast<size_t>(kind)];
}

Result<Pickle> RunPickle(std::span<const std::byte> bytes, std::string_view source) {
  return PickleMachine(bytes, source).Run();
}

}  // namespace sightline
