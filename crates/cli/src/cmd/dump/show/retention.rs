//! The reasons why dumps are kept or removed, as text.

use archive::increment::automatic::{Automatic, FullReason};
use archive::increment::retention::KeepReason;
use show::name::printable;
use show::table::{RowColour, Table, TableStyle};
use show::units::{plural, sized};
use show::{columns, json_object};

use crate::cmd::levels::{Dump as LevelDump, archive_cell, local_date, size_cell, utc_date};
use crate::date::Zone;

/// The result of `--prune`, or of a retention policy after a dump.
pub(crate) struct PruneResult<'a> {
    /// The dumps that can be removed, or were removed.
    pub(crate) dumps: Vec<LevelDump<'a>>,
    /// The number of dumps that are kept.
    pub(crate) kept: usize,
    /// The number of dumps that are kept only because later dumps could not read every entry.
    pub(crate) spared: usize,
    pub(crate) is_removed: bool,
    /// The kept dumps with the reasons, if a retention policy selects the dumps.
    pub(crate) kept_dumps: Option<Vec<KeptDump<'a>>>,
    /// Whether the removal is a prediction for the next dump, which removes dumps without `--yes`.
    pub(crate) is_foreseen: bool,
}

json_object!(PruneResult<'_>, |pruned| {
    "dumps": pruned.dumps,
    "kept": pruned.kept,
    "spared": pruned.spared,
    "bytes": present_bytes(pruned),
    "removed": pruned.is_removed,
    some "kept_dumps": pruned.kept_dumps.as_ref(),
});

/// The total size of the archives of `dumps`, as far as these archives exist.
fn present_bytes(pruned: &PruneResult<'_>) -> u64 {
    let archives = pruned.dumps.iter().map(LevelDump::present_bytes);
    archives.fold(0, u64::saturating_add)
}

pub(crate) fn pruned(pruned: &PruneResult<'_>) -> String {
    let dumps = plural(pruned.dumps.len() as u64, "dump", "dumps");
    let bytes = sized(present_bytes(pruned));
    let kept = match pruned.is_foreseen {
        true => {
            let kept = plural(pruned.kept as u64 + 1, "dump is", "dumps are");
            format!("with the next one, {kept}")
        }
        false => plural(pruned.kept as u64, "dump is", "dumps are"),
    };
    let would = if pruned.is_foreseen {
        ""
    } else {
        "; --yes removes them"
    };
    let spared = match pruned.spared {
        0 => String::new(),
        spared => format!(" ({spared} because later ones could not read everything)"),
    };
    match pruned.is_removed {
        _ if pruned.dumps.is_empty() => format!("all dumps are needed: {kept} kept{spared}"),
        true => format!("{dumps} removed ({bytes}), {kept} kept{spared}"),
        false => {
            format!("{dumps} no longer needed ({bytes}), {kept} kept{spared}{would}")
        }
    }
}

/// A kept dump, with the reasons.
pub(crate) struct KeptDump<'a> {
    pub(crate) dump: LevelDump<'a>,
    pub(crate) reasons: &'a [KeepReason],
}

json_object!(KeptDump<'_>, |kept| {
    "date": utc_date(kept.dump.record()),
    "level": kept.dump.record().level,
    name "archive": kept.dump.record().archive.as_deref(),
    "reasons": kept.reasons.iter().map(reason).collect::<Vec<_>>(),
});

/// A reason for keeping a dump, in restic's words where restic has one.
fn reason(reason: &KeepReason) -> String {
    match reason {
        KeepReason::LastOf(period) => period.name().to_owned(),
        KeepReason::Oldest(period) => format!("oldest {}", period.name()),
        KeepReason::Within => "within".to_owned(),
        KeepReason::BaseOf(at) => format!("base of {}", at + 1),
        KeepReason::LastComplete => "last complete".to_owned(),
        KeepReason::LastData => "has what later dumps could not read".to_owned(),
        KeepReason::NextBase => "base of the next dump".to_owned(),
        KeepReason::Unrestorable => "an archive is missing or damaged".to_owned(),
    }
}

/// The reasons for keeping a dump, separated by commas. If a dump is the base of many dumps, only
/// the number of these dumps is given.
fn reasons(kept: &KeptDump<'_>) -> String {
    const MOST: usize = 2;
    let is_base = |reason: &&KeepReason| matches!(reason, KeepReason::BaseOf(_));
    let bases = kept.reasons.iter().filter(is_base).count();
    let mut texts: Vec<String> = Vec::new();
    for one in kept
        .reasons
        .iter()
        .filter(|reason| bases <= MOST || !is_base(reason))
    {
        texts.push(reason(one));
    }
    if bases > MOST {
        texts.push(format!("base of {bases} dumps"));
    }
    texts.join(", ")
}

/// The table of all dumps, oldest first.
pub(crate) fn table(pruned: &PruneResult<'_>, zone: &Zone, style: TableStyle) -> String {
    let columns = columns![>"N", >"DATE", <"KEPT AS", >"LEVEL", >"SIZE", <"ARCHIVE"];
    let kept = pruned.kept_dumps.iter().flatten();
    let mut rows: Vec<(&LevelDump<'_>, String)> =
        kept.map(|kept| (&kept.dump, reasons(kept))).collect();
    let word = if pruned.is_removed {
        "removed"
    } else {
        "- (not needed)"
    };
    rows.extend(pruned.dumps.iter().map(|dump| (dump, word.to_owned())));
    rows.sort_by_key(|(dump, _)| dump.at);
    let mut table = Table::new(&columns, rows.len());
    table.identify_by(5);
    for (dump, why) in rows {
        let record = dump.record();
        table.row(
            [
                (dump.at + 1).to_string(),
                local_date(record, zone),
                why,
                record.level.to_string(),
                size_cell(record),
                archive_cell(record),
            ],
            RowColour::Plain,
        );
    }
    table.to_text(style.width, style.color)
}

/// A sentence: the kind of the next dump, and why it is a full one.
pub(crate) fn choice(automatic: &Automatic) -> String {
    let why = match &automatic.full {
        None => return "level 1: what changed since the last full dump".to_owned(),
        Some(FullReason::First) => "it is the first one in this directory".to_owned(),
        Some(FullReason::Due { increments }) => {
            let increments = plural((*increments).into(), "increment is", "increments are");
            format!("{increments} based on the last one")
        }
        Some(FullReason::NoCatalog) => "the catalog of the last one is missing".to_owned(),
        Some(FullReason::DamagedCatalog) => "the catalog of the last one cannot be read".to_owned(),
        Some(FullReason::NotRecorded) => "the last one is not recorded".to_owned(),
        Some(FullReason::OtherSources { roots }) => {
            let roots = roots
                .iter()
                .take(3)
                .map(|root| format!("'{}'", printable(root)));
            format!(
                "the last one was of {}",
                roots.collect::<Vec<_>>().join(", ")
            )
        }
        Some(FullReason::ArchiveGone { archive }) => match archive {
            Some(archive) => format!("'{}' is missing or is another file", printable(archive)),
            None => "the last one was written to a pipe".to_owned(),
        },
        Some(FullReason::DamagedArchive { archive }) => {
            format!(
                "'{}' is damaged, as fathom verify found",
                printable(archive)
            )
        }
        Some(FullReason::ReplacedSource {
            source_path,
            is_other_file_system,
        }) => {
            let now = match is_other_file_system {
                true => "is now on another file system",
                false => "was replaced by another file or directory",
            };
            format!("'{}' {now}", printable(source_path))
        }
    };
    format!("full dump: {why}")
}
