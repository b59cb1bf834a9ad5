//! The headings of the sections.

use survey::Section;

/// The title of a section, and the sentence below it on the page.
pub(crate) fn section_title(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::Mounts => (
            "Mounts",
            "What is mounted, which mounts are unusual, and what each method of finding mounts costs.",
        ),
        Section::Probe => (
            "File systems",
            "Properties of each file system: measured, and as the kernel reports them.",
        ),
        Section::Walk => (
            "Walking",
            "What it costs to read the metadata of every entry, with each engine that works here.",
        ),
        Section::Dump => (
            "Dumping",
            "What a nightly dump would cost. Only metadata was read, no file contents.",
        ),
        Section::Account => (
            "System calls of a walk",
            "The system calls of a walk with one call at a time, and what would save calls.",
        ),
        Section::Startup => (
            "Path search",
            "Where the shell, the dynamic linker and Python look for the files of a program.",
        ),
        Section::Gates => (
            "Prices of system calls",
            "What one call costs when the data is in memory (warm) and when it is not (cold).",
        ),
        Section::Steps => (
            "Measurement",
            "The machine, the steps of the survey, and what was skipped.",
        ),
    }
}
