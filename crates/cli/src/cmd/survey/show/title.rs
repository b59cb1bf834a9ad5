//! The headings of the sections.

use survey::Section;

/// The title of a section, and the sentence below it on the page.
pub(crate) fn section_title(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::Mounts => (
            "Mounts",
            "What is mounted here, what is odd about it, and what each way to find that out costs.",
        ),
        Section::Probe => (
            "File systems",
            "What each file system does, found by experiment, beside what the kernel says of it.",
        ),
        Section::Walk => (
            "Walking",
            "What it costs to look at every name and its metadata, by each engine that works here.",
        ),
        Section::Dump => (
            "Dumping",
            "What a dump every night would cost: the metadata was gathered as a dump does, no data was read.",
        ),
        Section::Account => (
            "The account of a walk",
            "What a walk, one call after the other, asks of the kernel, and what would save calls.",
        ),
        Section::Startup => (
            "Path search",
            "Where the shell, the dynamic linker and Python look for what a program needs, mostly in vain.",
        ),
        Section::Gates => (
            "Gate prices",
            "What one call costs here, when its answer is in memory (warm) and when it is not (cold).",
        ),
        Section::Steps => (
            "How it was measured",
            "On which machine, in which steps, and what was left out.",
        ),
        Section::Machine => ("", ""),
    }
}
