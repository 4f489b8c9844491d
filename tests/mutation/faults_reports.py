"""Faults in how deaths that a launcher reports come to the groups."""

from catchers import gtest, linked

SET = "src/engine/transport_set.cpp"
REPORTS = "src/bootstrap/pmix_reports.cpp"
SHARED = gtest("tests/engine/engine_unit", "TransportSet.*")
SAID = gtest("tests/bootstrap/bootstrap_pmix_reports_test", "PmixReports.*")


CALLER = "src/bootstrap/pmix_caller.cpp"
HANGING = gtest("tests/bootstrap/bootstrap_pmix_caller_test", "PmixCaller.*")
PMIX = "src/bootstrap/pmix.cpp"


def stored(name):
    return gtest("tests/bootstrap/bootstrap_pmix_test", f"Pmix.{name}")


def real(names):
    return linked("tests/integration/integration_pmix_reports", f"Pmix/Reports.{names}/*")


PAGES = "src/status/kept_pages.cpp"
KEPT = gtest("tests/engine/engine_unit", "KeptPages.*")

FAULTS = [
    # --- what is said
    ("a report about another job is heeded", REPORTS,
     "        if (std::strncmp(process.nspace, self_.nspace, sizeof self_.nspace) != 0) return;\n", "", real("ThatMakeNoSenseAreLeft")),
    ("a rank believes its own death", REPORTS, "process.rank == self_.rank || ", "", real("ThatMakeNoSenseAreLeft")),
    ("a report about a rank that is not there is heeded", REPORTS, " || process.rank >= told_.size()) return;\n", ") return;\n", SAID),
    ("a death is told of as often as the launcher says it", REPORTS, "        if (told_[process.rank]) return;\n", "", SAID),
    ("what is said in place of a process is taken for one", REPORTS, " && value.type == COPPICE_PMIX_PROC) {", ") {", SAID),
    ("what is said in place of processes is taken for some", REPORTS, "               value.type == COPPICE_PMIX_DATA_ARRAY && ",
     "               ", SAID),
    ("processes that are none are taken for some", REPORTS, " &&\n               value.data.array->type == COPPICE_PMIX_PROC) {", ") {", SAID),
    ("no array is taken for one", REPORTS, "value.data.array != nullptr &&", "true &&", SAID),
    ("nothing is taken for a process", REPORTS, "    if (processes == nullptr) return;\n", "", SAID),
    ("news of a death wake nobody", REPORTS, "        [[maybe_unused]] const auto rung = ::write(bell_, &one, sizeof one);\n",
     "        (void)one;\n", SAID),
    ("an event is kept from the handlers behind, and the next one does not come", REPORTS,
     "    if (handled != nullptr) handled(COPPICE_PMIX_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, argument);\n", "",
     SAID),
    ("reports are taken by the launcher's numbers", "src/bootstrap/store.cpp",
     "    if (!all || *all == nullptr || subset_.is_all()) return all;\n", "    return all;\n", real("EndTheWaitForARank")),
    # --- the session
    ("the session is kept though nobody has asked for it", "src/engine/formation/formation.cpp", "if (settings_.keeps_pmix_session) listen_to_launcher();",
     "listen_to_launcher();", real("AreNotHeardByThoseThatEndTheirSessions")),
    ("the first group that goes takes the reports with it", REPORTS, "if (--one.users == 0)", "if (--one.users > 0)",
     real("AreForAllGroupsOfAProcess")),
    ("the session outlives the groups", REPORTS, "    library.finalize(nullptr, 0);\n", "",
     real("AreForAllGroupsOfAProcess")),
    ("of several groups one hears", REPORTS, "    if (one.users == 0) {\n", "    if (one.users > 0) return {};\n    {\n",
     real("AreForAllGroupsOfAProcess")),
    ("the handler of the last session is taken for one of the next", REPORTS, "if (--one.users == 0)", "if (one.users == 0)",
     SAID),
    ("a library without events is called for them", REPORTS, "    if (library.register_handler == nullptr) return", "    if (library.version == nullptr) return", SAID),
    ("a handler that is not asked for is waited for", REPORTS, "    if (asked != COPPICE_PMIX_SUCCESS)\n", "    if (asked == INT32_MAX)\n", SAID),
    ("a refusal is taken for a yes", REPORTS, "    if (answer->status == COPPICE_PMIX_SUCCESS) return answer->reference;\n",
     "    return answer->reference;\n", SAID),
    ("a server that says nothing is waited for", REPORTS, "answer->changed.wait_for(lock, kAnswerTime, [&] { return answer->done; })",
     "answer->changed.wait_for(lock, std::chrono::hours(1), [&] { return answer->done; })", real("AreDoneWithoutWhereThereAreNone")),
    ("each group says that there are no reports", "src/engine/formation/formation.cpp", "        static std::once_flag told;\n",
     "        std::once_flag told;\n", real("AreDoneWithoutWhereThereAreNone")),
    # --- calls that hang
    ("libpmix is called beside a call that hangs", CALLER, "    if (!shared_->calls.empty()) return false;\n", "", HANGING),
    ("a next session begins beside a call that hangs", CALLER, "[&] { return others.count == 0; }", "[] { return true; }", HANGING),
    ("no session begins once a call has hung", CALLER, "        --others.count;\n", "", HANGING),
    ("a session whose call comes back late is not ended", CALLER, "            if (calls.empty()) break;\n", "            if (is_left || calls.empty()) break;\n", HANGING),
    ("a call without memory is taken for one that has returned", CALLER, "std::exchange(shared_->no_memory, false)", "false", HANGING),
    ("a call whose deadline has passed before has no time", CALLER, "const auto end = time_of(in_time(deadline_ns));", "const auto end = time_of(deadline_ns);",
     HANGING),
    ("a rank that is absent is taken for a server that hangs", CALLER, "const auto end = time_of(in_time(deadline_ns));",
     "const auto end = time_of(deadline_ns);", stored("SaysOfARankThatDoesNotComeThatItDoesNotCome")),
    ("a farewell needs memory", CALLER, "    shared_->calls.splice(shared_->calls.end(), shared_->last);\n",
     "    shared_->calls.push_back(std::move(shared_->last.front()));\n", HANGING),
    ("a thread that gets no memory for another one takes no signals from then on", "src/base/signals.hpp",
     "~SignalsBlocked() { ", "~SignalsBlocked() { if (std::uncaught_exceptions() == 0) ", HANGING),
    ("a progress thread that gets no memory leaves its descriptor", "src/engine/progress/progress_thread.cpp",
     "    } catch (const std::bad_alloc&) {\n        process::close_own(std::exchange(bell_, -1));\n        throw;\n", "",
     gtest("tests/engine/progress_thread_shortage_test", "ProgressThreads.*")),
    ("a progress thread that gets no memory leaves its maker without signals", "src/base/signals.hpp",
     "~SignalsBlocked() { pthread", "~SignalsBlocked() { if (std::uncaught_exceptions() == 0) pthread",
     gtest("tests/engine/progress_thread_shortage_test", "ProgressThreads.*")),
    ("a forked child waits for its parent's threads", CALLER, "new (&of_this_process()) LeftBehind;", "", HANGING),
    ("what a call brings too late goes while its caller waits", CALLER, "            call = nullptr;", "            //", HANGING),
    ("a session is ended behind a fence that has yet to begin", PMIX, "        is_fencing_ = true;\n", "",
     stored("EndsNoSessionBehindAFenceThatHasYetToBegin")),
    ("a server that hangs holds up who asks it for reports", PMIX,
     "caller_->call(std::max(deadline_ns_, now_ns() + pmix::kListenTime), listen);", "std::optional(listen());",
     stored("WaitsForNoHandlerOfEventsBeyondItsTime")),
    ("a handler that comes too late stays", REPORTS, "    if (Caller::is_this_thread()) return end_session(library, begun);\n", "",
     stored("WaitsForNoHandlerOfEventsBeyondItsTime")),
    ("a server that hangs holds up the end of a group", REPORTS, "    if (caller) return (*caller)->goodbye(now_ns() + Caller::kLeast);\n",
     "    if (caller) return end();\n", stored("EndsReportsThoughTheServerHangs")),
    # --- heeding
    ("a report of a seat's earlier holder ends the later one", SET, "        if (directory_.has(seat, 0)) note_end(seat);\n",
     "        note_end(seat);\n", SHARED),
    ("nobody sleeps on reports", SET, "    if (reports_) all = sleep_on(reports_->descriptor(), sleep_on_reports_) && all;\n", "", SHARED),
    ("one that has left in peace is reported dead", SET,
     "    if (!is_over(seat)) peer_failed(seat,", "    if (std::ranges::find(dead_, seat) == dead_.end()) peer_failed(seat,", SHARED),
    ("a death that is known is reported again", SET,
     "    if (!is_over(seat)) peer_failed(seat,", "    if (std::ranges::find(gone_, seat) == gone_.end()) peer_failed(seat,", SHARED),
    # --- pages of processes that have ended
    ("pages of the ended are kept without end", PAGES, "(ended <= most_ended_ && all <= most)", "all <= most", KEPT),
    ("one that has ended does not give way", PAGES, "(ended <= most_ended_ && all <= most)", "ended <= most_ended_", KEPT),
    ("pages of the living give way", PAGES, "!one.ended || (ended <= most_ended_", "(ended <= most_ended_", KEPT),
    ("pages of all of the ended go", PAGES, "        --ended;\n", "", KEPT),
    ("of the ended those that came first go first", PAGES,
     "    std::stable_partition(kept_.begin(), kept_.end(), [](const Kept& one) { return one.ended; });\n", "", KEPT),
    ("pages of contexts that were destroyed are kept", PAGES, "        if (closed) process::close_own(one.descriptor);\n        return closed;\n",
     "        return false;\n", KEPT),
]
