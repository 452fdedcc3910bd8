#include "Config.h"

#include "runtime/core/Json.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>

namespace dsv3::serve {

namespace {

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// The values of a key: a scalar, or a list of them for a flag that may be repeated.
Result<std::vector<std::string>> valuesOf(const YAML::Node &node, const std::string &where) {
  std::vector<std::string> values;
  if (node.IsScalar())
    values.push_back(node.Scalar());
  else if (node.IsSequence() && node.size() > 0)
    for (const YAML::Node &item : node) {
      if (!item.IsScalar())
        return usageError(where + ": expected a value or a list of values");
      values.push_back(item.Scalar());
    }
  else
    return usageError(where + ": expected a value or a list of values");
  return values;
}

using Values = std::map<std::string, std::vector<std::string>>;

Result<Values> readFile(const std::string &path) {
  Values values;
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::BadFile &) {
    return usageError("--config: cannot read " + path);
  } catch (const YAML::Exception &e) {
    return usageError("--config: " + path + ": " + oneLine(e.what()));
  }
  if (!root.IsDefined() || root.IsNull())
    return values;
  if (!root.IsMap())
    return usageError("--config: " + path + ": expected a map of flags to values");
  for (const auto &pair : root) {
    if (!pair.first.IsScalar())
      return usageError("--config: " + path + ": expected names of flags as keys");
    std::string key = pair.first.Scalar();
    std::replace(key.begin(), key.end(), '_', '-');
    Result<std::vector<std::string>> value = valuesOf(pair.second, path + ": " + printable(key));
    if (!value)
      return value.error();
    if (!values.emplace(key, *value).second)
      return usageError("--config: " + path + ": the key \"" + printable(key) + "\" occurs twice");
  }
  return values;
}

/// As if the values had stood on the command line.
Status give(CLI::Option &option, const std::vector<std::string> &values, const std::string &where) {
  try {
    for (const std::string &value : values) {
      if (value.empty())
        return usageError(where + ": expected a value, got an empty string");
      option.add_result(value);
    }
    option.run_callback();
  } catch (const CLI::ParseError &e) {
    return usageError(where + ": " + oneLine(e.what()));
  }
  return {};
}

bool isConfigurable(const CLI::Option &option) {
  const std::string &name = option.get_name();
  return option.get_lnames().size() == 1 && name != "--help" && name != "--config";
}

} // namespace

std::string environmentName(const CLI::Option &option) {
  std::string name = "DSV3_" + option.get_lnames().front();
  for (char &c : name)
    c = c == '-' ? '_' : char(std::toupper(c));
  return name;
}

Result<Origins> fillIn(CLI::App &app, const std::string &path) {
  Values file;
  if (!path.empty()) {
    Result<Values> read = readFile(path);
    if (!read)
      return read.error();
    file = std::move(*read);
  }
  Origins origins;
  for (CLI::Option *option : app.get_options()) {
    if (!isConfigurable(*option))
      continue;
    const std::string key = option->get_lnames().front(), variable = environmentName(*option);
    const char *inEnvironment = std::getenv(variable.c_str());
    auto inFile = file.find(key);
    std::string &origin = origins[option];
    origin = "default";
    Status given;
    if (option->count() > 0) {
      origin = "flag";
    } else if (inEnvironment) {
      origin = "env";
      given = give(*option, {inEnvironment}, variable);
    } else if (inFile != file.end()) {
      origin = "file";
      given = give(*option, inFile->second, path + ": " + key);
    }
    if (!given)
      return given.error();
    if (inFile != file.end())
      file.erase(inFile);
  }
  if (!file.empty())
    return usageError("--config: " + path + ": unknown key \"" + printable(file.begin()->first) + "\"");
  return origins;
}

} // namespace dsv3::serve
