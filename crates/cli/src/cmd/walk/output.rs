//! Prints entries in the requested format; the source is a walk or catalogs.

use std::borrow::Cow;

use ::show::units::{plural, size};
use archive::Users;
use base::{Warning, WarningReason};
use gate::Gate;
use team::Team;
use walk::group::{GroupOrder, Groups};
use walk::predicate::test::TimeField;
use walk::{
    Fields, Largest, Moment, Sink, SinkPair, Summary, Totals, Usage, UsageOrder, UsageSink,
    WalkedMount,
};

use super::lines::{self, Lines};
use super::ncdu::Ncdu;
use super::show::{self, Directories, DirectoryIterator, Walk};
use super::sinks::LineOutput;
use crate::args::output::{Format, OutputArgs, SortKey, group_order};
use crate::cmd::groups::NamedGroups;
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::ranks::show::note_ranks;
use crate::ranks::tell_first;

/// A source of entries: a walk, or catalogs.
pub(crate) trait Source {
    /// Passes the selected entries to a sink.
    fn emit(&self, sink: &dyn Sink, wanted: Messages) -> Result<EmitReport, Error>;

    /// Adds the selected entries to groups.
    fn add_up(&self, groups: &Groups, wanted: Messages) -> Result<EmitReport, Error> {
        self.emit(groups, wanted)
    }

    /// The start directories, with which all paths begin.
    fn roots(&self) -> &[Vec<u8>];

    /// Prints a status message about the source, its time and engines.
    fn note(&self, totals: &Totals, emitted: &EmitReport, out: &Out);

    /// Prints what sums over the source count several times, or lack.
    fn note_sums(&self, out: &Out);
}

/// The result of emitting entries from a source.
#[derive(Debug, Default)]
pub(crate) struct EmitReport {
    /// The mounts with their engines; empty for catalogs.
    pub(crate) parts: Vec<WalkedMount>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) seconds: f64,
    /// With `--resume`, the number of parts that were kept from earlier attempts, and of all parts.
    pub(crate) kept: Option<(usize, usize)>,
}

/// The requested output: format and options.
pub(crate) struct OutputRequest<'a> {
    pub(crate) format: Format,
    pub(crate) args: &'a OutputArgs,
    pub(crate) schema: &'static str,
    /// The timestamp from which ages are computed.
    pub(crate) time: TimeField,
    /// The depth down to which `--format du` prints directories.
    pub(crate) max_depth: Option<u32>,
    /// Whether `--format du` prints the bytes that deleting a directory would free.
    pub(crate) is_exclusive: bool,
    /// Whether all entries are printed, because the command line has no predicates.
    pub(crate) is_all: bool,
    /// The processes that share the walk. Several processes support `--format summary` only.
    pub(crate) team: &'a dyn Team,
}

/// Checks that format and flags can be combined.
pub(crate) fn check(format: Format, args: &OutputArgs, out: &Out) -> Result<(), Error> {
    let is_grouped = args.group_by.is_some();
    if is_grouped
        && matches!(
            format,
            Format::Du | Format::Paths | Format::Paths0 | Format::Ncdu
        )
    {
        return Err(Error::new(
            "--group-by cannot be used with --format du, paths, paths0 or ncdu",
        )
        .with_hint("omit --format, or use --format csv or ndjson"));
    }
    if out.json && is_grouped && format != Format::Summary {
        return Err(
            Error::new("--json cannot be used with --format csv or ndjson")
                .with_hint("omit one of them"),
        );
    }
    let is_list = format.is_list() || format == Format::Ncdu;
    let has_unfit_top = args.top.is_some() && format == Format::Ncdu;
    if is_list && !is_grouped && (out.json || has_unfit_top) {
        let option = if out.json { "--json" } else { "--top" };
        return Err(
            Error::new(format!("{option} cannot be used with this --format"))
                .with_hint("use --format summary or --format du"),
        );
    }
    if let Some(sort) = args.sort
        && format != Format::Du
        && !is_grouped
    {
        let lists_files = format == Format::Summary || format.is_list();
        let is_of_files = lists_files && matches!(sort, SortKey::Bytes | SortKey::Allocated);
        match (is_of_files, args.top) {
            (true, Some(_)) => {}
            (true, None) => {
                return Err(
                    Error::new("--sort requires --top, --format du or --group-by").with_hint(
                        "add --top N for the largest files, or --format du for directories",
                    ),
                );
            }
            (false, _) => {
                let hint = match lists_files {
                    true => "add --format du, or sort files with --sort bytes --top N",
                    false => "add --format du",
                };
                return Err(
                    Error::new("this --sort requires --format du or --group-by").with_hint(hint)
                );
            }
        }
    }
    Ok(())
}

/// The fields of an entry that the output needs, in addition to those for predicates.
pub(super) fn fields(format: Format, args: &OutputArgs) -> Fields {
    match args.group_by.is_some() || args.top.is_some() {
        false => lines::fields(format),
        true => Fields::all(),
    }
}

impl OutputRequest<'_> {
    /// Prints the entries of a source.
    pub(crate) fn print(&self, source: &dyn Source, out: &Out) -> Outcome {
        if self.args.group_by.is_some() {
            return self.groups(source, out);
        }
        match (self.format, self.args.top) {
            (format, Some(most)) if format.is_list() => self.largest(source, most, out),
            (format, None) if format.is_list() => list(source, format, out),
            (Format::Du, _) => self.usage(source, out),
            (Format::Ncdu, _) => export(source, out),
            _ => self.summary(source, out),
        }
    }

    /// Prints the largest files of `--top` in a format with one line per entry.
    fn largest(&self, source: &dyn Source, most: usize, out: &Out) -> Outcome {
        let is_by_size = self.args.sort == Some(SortKey::Bytes);
        let largest = Largest::new(most, is_by_size);
        let largest = match self.format {
            Format::Paths | Format::Paths0 => largest,
            _ => largest.with_metadata(),
        };
        let emitted = source.emit(&largest, out.messages())?;
        let files = largest.into_files();
        out.names(|to| {
            to.write_all(lines::head(self.format))?;
            let mut lines = Lines::new(self.format);
            files.iter().try_for_each(|file| {
                lines.top(
                    &file.path,
                    &file.meta.as_deref().copied().unwrap_or_default(),
                );
                to.write_all(&lines.buffer)?;
                lines.buffer.clear();
                Ok(())
            })
        })?;
        Ok(out.warn(&emitted.warnings))
    }

    /// Prints the groups of `--group-by`.
    fn groups(&self, source: &dyn Source, out: &Out) -> Outcome {
        let Some(field) = self.args.group_by else {
            return Ok(0);
        };
        let by = field.group_by(self.time);
        let groups = Groups::new(by);
        let emitted = source.add_up(&groups, out.messages())?;
        let order = group_order(self.args, field);
        let users = Users::read();
        let groups = NamedGroups {
            by,
            groups: &groups.into_sorted(order, self.args.top),
            users: &users,
        };
        let result = Walk {
            parts: &emitted.parts,
            groups: Some(groups),
            ..Walk::default()
        };
        out.report(self.schema, result, &emitted.warnings, || {
            match self.format {
                Format::Csv => out.names(|to| groups.write_csv(to)),
                Format::Ndjson => out.names(|to| groups.write_ndjson(to)),
                _ => out.text_pieces(|put| groups.write_table(out.table_style(), true, put)),
            }?;
            source.note_sums(out);
            Ok(())
        })
    }

    /// Prints `--format summary`.
    fn summary(&self, source: &dyn Source, out: &Out) -> Outcome {
        if self.team.is_alone() && !(out.json || out.quiet) {
            return self.answer(source, out);
        }
        let totals = Summary::default();
        let is_by_size = self.args.sort == Some(SortKey::Bytes);
        let largest = self.args.top.map(|most| Largest::new(most, is_by_size));
        let mut emitted = match &largest {
            Some(largest) => source.emit(&SinkPair(&totals, largest), out.messages()),
            None => source.emit(&totals, out.messages()),
        }?;
        let own = totals.totals();
        let warnings = std::mem::take(&mut emitted.warnings);
        let Some(all) = tell_first(self.team, own.to_words(), own.entries, warnings) else {
            return Ok(0);
        };
        let mut totals = Totals::default();
        let words = all.values.iter();
        words.for_each(|words| totals.merge(&Totals::from_words(words)));
        let seconds = emitted.seconds;
        let top = largest.map(Largest::into_files);
        let result = Walk {
            totals: Some((&totals, seconds)),
            parts: &emitted.parts,
            top: top.as_ref(),
            ranks: all.ranks.as_deref(),
            kept: emitted.kept.map(|(kept, _)| kept),
            ..Walk::default()
        };
        let figures = result.figures();
        out.report_measured(self.schema, result, figures, &all.warnings, || {
            if out.quiet && top.is_none() {
                return Ok(());
            }
            out.text_pieces(|put| {
                put(&show::totals_text(&totals, seconds, &emitted.parts));
                if let Some(top) = &top {
                    put("\n");
                    show::write_top(top, out.table_style(), put);
                }
            })?;
            source.note(&totals, &emitted, out);
            source.note_sums(out);
            note_ranks(all.ranks.as_deref(), emitted.kept, out);
            Ok(())
        })
    }

    /// Prints the text of `--format summary`: sizes, largest directories and files; then digest,
    /// engines and time.
    fn answer(&self, source: &dyn Source, out: &Out) -> Outcome {
        let totals = Summary::default();
        let is_by_size = self.args.sort == Some(SortKey::Bytes);
        let most = self.args.top.unwrap_or(show::LARGEST_FILES);
        let largest = Largest::new(most, is_by_size);
        let groups = show::GROUPS.map(|(by, _)| (by, Groups::new(by)));
        let [(_, directories), (_, extensions)] = &groups;
        let both = SinkPair(directories, extensions);
        let all = SinkPair(&largest, &both);
        let emitted = source.emit(&SinkPair(&totals, &all), out.messages())?;
        let (totals, seconds) = (totals.totals(), emitted.seconds);
        let (files, users) = (largest.into_files(), Users::default());
        let groups = groups.into_iter().zip(show::GROUPS);
        let groups: Vec<_> = groups
            .map(|((by, groups), (_, most))| {
                (by, groups.into_sorted(GroupOrder::Allocated, Some(most)))
            })
            .collect();
        // The groups contain every entry, and each file with several names once.
        let once = groups.first().map(|(_, groups)| groups.total());
        out.text_pieces(|put| {
            put(&show::sizes_text(&totals, once));
            for (by, groups) in &groups {
                put("\n");
                let named = NamedGroups {
                    by: *by,
                    groups,
                    users: &users,
                };
                named.write_table(out.table_style(), false, put);
            }
            if files.iter().next().is_some() {
                put("\n");
                show::write_top(&files, out.table_style(), put);
            }
            put("\n");
            put(&show::means_text(&totals, seconds, &emitted.parts));
        })?;
        source.note(&totals, &emitted, out);
        source.note_sums(out);
        note_ranks(None, emitted.kept, out);
        Ok(out.warn(&emitted.warnings))
    }

    /// Prints `--format du`.
    fn usage(&self, source: &dyn Source, out: &Out) -> Outcome {
        let totals = Summary::default();
        let usage = match self.is_exclusive {
            true => UsageSink::with_exclusive(source.roots()),
            false => UsageSink::new(source.roots()),
        };
        let mut emitted = match out.json {
            true => source.emit(&SinkPair(&totals, &usage), out.messages()),
            false => source.emit(&usage, out.messages()),
        }?;
        let usage = usage.finish();
        if usage.collisions > 0 {
            let kind = WarningKind::Collisions(usage.collisions);
            emitted.warnings.push(Warning::general(kind));
        }
        emitted.warnings.extend(missing(&usage));
        let order = self.usage_order();
        // With predicates, most directories can be without selected entries, and are omitted.
        let is_all = self.is_all;
        let directories = || -> DirectoryIterator<'_> {
            let directories = usage.directories(self.max_depth, order, self.args.top);
            Box::new(directories.filter(move |it| is_all || it.sums.inodes > 0))
        };
        let totals = totals.totals();
        let result = Walk {
            totals: Some((&totals, emitted.seconds)),
            parts: &emitted.parts,
            usage: Some(Directories(&directories)),
            ..Walk::default()
        };
        let figures = result.figures();
        out.report_measured(self.schema, result, figures, &emitted.warnings, || {
            let (directories, style) = (Directories(&directories), out.table_style());
            out.text_pieces(|put| {
                show::write_usage(&directories, self.is_exclusive, style, put);
            })?;
            source.note_sums(out);
            Ok(())
        })
    }

    /// The order of `--format du`. With `--top`, the largest directories are those that free or
    /// allocate most, unless `--sort` names a different size.
    fn usage_order(&self) -> UsageOrder {
        match self.args.sort {
            None if self.args.top.is_none() => UsageOrder::ChildrenFirst,
            None if self.is_exclusive => UsageOrder::Exclusive,
            None | Some(SortKey::Allocated) => UsageOrder::Allocated,
            Some(SortKey::Name) => UsageOrder::Path,
            Some(SortKey::Bytes) => UsageOrder::Bytes,
            Some(SortKey::Count) => UsageOrder::Inodes,
        }
    }
}

/// Prints `--format paths`, `paths0`, `ndjson` or `csv`.
fn list(source: &dyn Source, format: Format, out: &Out) -> Outcome {
    let output = LineOutput::new(format, out);
    // A progress line and names on the same terminal would overwrite each other, so show no
    // progress.
    let mut wanted = out.messages();
    wanted.progress &= !out.on_terminal();
    let emitted = source.emit(&output, wanted)?;
    output.end()?;
    Ok(out.warn(&emitted.warnings))
}

/// Prints `--format ncdu`.
fn export(source: &dyn Source, out: &Out) -> Outcome {
    if source.roots().len() != 1 {
        return Err(Error::new("--format ncdu cannot be used with several DIRs")
            .with_hint("export each DIR to a file of its own"));
    }
    let tree = Ncdu::default();
    let emitted = source.emit(&tree, out.messages())?;
    tree.write(Moment::now().time(), out)?;
    Ok(out.warn(&emitted.warnings))
}

/// Warnings about files that the column EXCLUSIVE of `--format du` omits, because their extents
/// cannot be read, or because it is unknown whether other files share them.
fn missing(usage: &Usage) -> impl Iterator<Item = Warning> {
    let unread = usage.unread.as_ref().map(|unread| {
        let kind = WarningKind::UnreadExtents {
            files: unread.files,
            bytes: unread.blocks.saturating_mul(512),
        };
        Warning::failed(&unread.path, Gate::FsIocFiemap, unread.errno, kind)
    });
    let unknown = usage.unknown_owners.map(|unknown| Warning {
        errno: Some(unknown.errno),
        ..Warning::general(WarningKind::UnknownOwners(unknown.bytes))
    });
    unread.into_iter().chain(unknown)
}

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{0} directories are counted as part of others (hash collision)")]
    Collisions(u64),
    #[error("cannot read the extents")]
    UnreadExtents { files: u64, bytes: u64 },
    #[error("cannot tell whether other files share {} of the extents", size(*.0))]
    UnknownOwners(u64),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            WarningKind::Collisions(_) => return None,
            WarningKind::UnreadExtents { files, bytes } => {
                let files = plural(*files, "such file", "such files");
                format!("EXCLUSIVE does not include {files} of {}", size(*bytes)).into()
            }
            WarningKind::UnknownOwners(_) => "EXCLUSIVE does not include them".into(),
        })
    }
}
