// Golden files: a first line "scenario key=value …", then what came of it, as text that a reviewer can read.
//
// COPPICE_REWRITE_GOLDEN=1 writes the files anew.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace coppice::testing {

// The names of all golden files in `directory`, without ".txt", sorted.
std::vector<std::string> golden_files(const std::string& directory);

// The file holds what `tell` makes of its scenario.
void expect_golden(const std::string& directory, const std::string& name,
                   const std::function<std::string(const std::string& scenario)>& tell);

// A scenario's words by their keys.
std::map<std::string, std::string> settings_of(const std::string& scenario);

}  // namespace coppice::testing
