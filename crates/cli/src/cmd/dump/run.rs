//! `fathom dump`: trees into an archive.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::Action;
use archive::account::{Took, measure};
use archive::catalog::Options;
use archive::dump::{Answer, Line, Map, Progress, Question, dump};
use archive::gather::Gather;
use archive::increment::levels::Level;
use gate::file::Writer;
use gate::fs::{At, FileType, Want};
use gate::long::statx_long;
use report::account::Account;
use report::dump::{Counts, Dump, Mapped, Possible, Size};
use walk::{Diagnostics, EngineKind, EngineRefusal, Explained, Type};

use crate::cmd::account::accounting::of_run;
use crate::cmd::dump::args::{Dump as Args, Gathering};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::{watch_dump, watch_walk};

const SCHEMA: &str = "fathom.dump/1";
const NO_DIRECTORY: &str = "no SRC is a directory";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let bytes =
        |name: &Option<std::ffi::OsString>| name.as_ref().map(|name| name.as_bytes().to_vec());
    let archive = bytes(&args.output).filter(|_| !args.no_output);
    if out.json && archive.as_deref() == Some(b"-") {
        return Err(Error::new(
            "--json and -o - both write to standard output; give -o FILE".to_owned(),
        ));
    }
    if archive.as_deref() == Some(b"-") && out.on_terminal() {
        return Err(Error::new(
            "an archive is nothing for a terminal; give -o FILE, or pipe it to where it is to go"
                .to_owned(),
        ));
    }
    if args.explain {
        return explain(args, out);
    }
    let map = bytes(&args.map).filter(|_| !args.no_map);
    let question = Question {
        sources: args
            .sources
            .iter()
            .map(|source| source.as_bytes().to_vec())
            .collect(),
        archive,
        since: bytes(&args.since),
        catalog: bytes(&args.catalog),
        level: args
            .level
            .zip(bytes(&args.state))
            .map(|(number, state)| Level { number, state }),
        gather: gathering(args.gather),
        threads: if args.account {
            Some(1)
        } else {
            args.jobs.map(usize::from)
        },
        options: Options {
            excludes: args.exclude.clone(),
            max_depth: None,
            one_file_system: args.one_file_system,
        },
        own: map.iter().cloned().collect(),
    };
    let mut list = map.map(|path| List::create(&path)).transpose()?;
    let (desk, progress) = (Diagnostics::default(), Progress::default());
    if args.account {
        archive::attribution::start();
    }
    let answer = watch_dump(out.progress, &desk, &progress, || {
        dump(
            &question,
            &desk,
            &progress,
            list.as_mut().map(|list| list as &mut dyn Map),
        )
    });
    let answer = answer?;
    let seconds = start.elapsed().as_secs_f64();
    let account = args.account.then(|| {
        let books = archive::attribution::stop();
        of_run(
            &books,
            answer.directories,
            answer.gathered - answer.directories,
            &ways(&question, out),
        )
    });
    tell(&question, &answer, seconds, account.as_ref(), out)?;
    out.warn(&answer.warnings);
    Ok(answer.warnings.len())
}

pub(crate) fn gathering(gathering: Gathering) -> Option<Gather> {
    match gathering {
        Gathering::Auto => None,
        Gathering::Percall => Some(Gather::PerCall),
        Gathering::Combined => Some(Gather::Combined),
        Gathering::Batched => Some(Gather::Batched),
        Gathering::Raw => Some(Gather::Raw),
    }
}

/// What each way of gathering takes on the same tree, or why it is not to be had.
fn ways(question: &Question, out: &Out) -> Vec<(Gather, Result<Took, String>)> {
    let dirs: Vec<Vec<u8>> = question
        .sources
        .iter()
        .filter(|source| is_dir(source))
        .cloned()
        .collect();
    let explained = walk::explain(&dirs, false).unwrap_or_default();
    let refused = |gather: Gather| {
        let engines = explained.iter().map(|one| &one.plan.engines);
        let mut wanting = engines.filter(|engines| own_engine(gather, engines).is_none());
        wanting.next().map(|engines| refusals(gather, engines))
    };
    let asked = archive::dump::asked(question, None);
    let measured = |gather: Gather| {
        let desk = Diagnostics::default();
        let once_more = || watch_walk(out.progress, &desk, || measure(&asked, gather, &desk));
        refused(gather).map_or_else(once_more, Err)
    };
    Gather::ALL
        .into_iter()
        .map(|gather| (gather, measured(gather)))
        .collect()
}

/// The engine that gathers in this way, if there is one that can.
fn own_engine(
    gather: Gather,
    engines: &[(EngineKind, Result<(), EngineRefusal>)],
) -> Option<EngineKind> {
    // To ask for each attribute by itself is possible everywhere.
    let can = |by: &EngineKind| {
        *by == EngineKind::PerCall
            || engines
                .iter()
                .any(|(engine, possible)| engine == by && possible.is_ok())
    };
    gather
        .engines()
        .iter()
        .copied()
        .find(|by| Gather::of(*by) == gather && can(by))
}

fn tell(
    question: &Question,
    answer: &Answer,
    seconds: f64,
    account: Option<&Account>,
    out: &Out,
) -> Result<(), Error> {
    let Answer {
        entries,
        archive_bytes,
        removed,
        renamed,
        unchanged,
        ..
    } = *answer;
    let archive::dump::Counts {
        dumped,
        files,
        directories,
        symlinks,
        links,
        other,
        bytes,
    } = answer.counts;
    let first = answer.parts.first();
    let shown = Dump {
        archive: question.archive.as_deref(),
        gather: first.map_or(Gather::Combined, |part| part.gather).name(),
        engine: first.map(|part| part.engine.name()),
        why: first.map_or(NO_DIRECTORY, |part| &part.why),
        level: question.level.as_ref().map(|level| level.number),
        since: answer.since.as_deref(),
        counts: Some(Counts {
            entries,
            dumped,
            files,
            directories,
            symlinks,
            links,
            other,
            bytes,
            archive_bytes,
            removed,
            renamed,
            unchanged,
        }),
        seconds: Some(seconds),
        account,
        ..Dump::default()
    };
    answer.notes.iter().for_each(|note| out.note(note));
    if out.json {
        return out.envelope(SCHEMA, shown, &answer.warnings);
    }
    out.note(shown.to_text());
    match account {
        // Standard output has the archive.
        Some(account) if shown.archive == Some(b"-") => {
            out.note_table(|look| account.to_text(look))
        }
        Some(account) => out.data(account.to_text(out.table_style()).as_bytes())?,
        None => {}
    }
    Ok(())
}

/// `--explain`
fn explain(args: &Args, out: &Out) -> Outcome {
    let sources = args.sources.iter().map(|source| source.as_bytes().to_vec());
    let dirs: Vec<Vec<u8>> = sources.filter(|source| is_dir(source)).collect();
    let explained = walk::explain(&dirs, false)?;
    let asked = gathering(args.gather);
    let mut rows = Vec::new();
    for Explained { path, plan, .. } in &explained {
        let can = |by: EngineKind| own_engine(Gather::of(by), &plan.engines) == Some(by);
        // What a mount does not offer falls back to the next better way.
        let fallen = |gather: Gather| gather.engines().iter().copied().find(|by| can(*by));
        let taken = asked.map_or(Some(plan.engine), fallen);
        for gather in Gather::ALL {
            let own = own_engine(gather, &plan.engines);
            let is_taken = own.is_some() && own == taken;
            let why = match own {
                Some(_) if is_taken && asked.is_none() => plan.reason.to_string(),
                Some(_) if is_taken => "it was asked for, or is what that falls back to".to_owned(),
                Some(_) => "it can work here".to_owned(),
                None => refusals(gather, &plan.engines),
            };
            let engine = own.map(EngineKind::name);
            rows.push(Possible {
                path: path.clone(),
                gather: gather.name(),
                engine,
                possible: own.is_some(),
                why,
            });
        }
    }
    let first = explained.first();
    let by = first.map_or(EngineKind::Threads, |first| first.plan.engine);
    if out.json {
        let why = first.map(|first| first.plan.reason.to_string());
        let why = why.as_deref().unwrap_or(NO_DIRECTORY);
        let gather = asked.unwrap_or(Gather::of(by)).name();
        let engine = first.map(|_| by.name());
        out.envelope(
            SCHEMA,
            Dump {
                gather,
                engine,
                why,
                explain: Some(&rows),
                ..Dump::default()
            },
            &[],
        )?;
    } else {
        out.data(report::dump::explain_text(&rows, out.table_style()).as_bytes())?;
    }
    Ok(0)
}

/// Why none of the engines of a way can work.
fn refusals(gather: Gather, engines: &[(EngineKind, Result<(), EngineRefusal>)]) -> String {
    let own = engines.iter().filter(|(by, _)| Gather::of(*by) == gather);
    let said: Vec<String> = own
        .filter_map(|(by, e)| Some(format!("{}: {}", by.name(), e.as_ref().err()?)))
        .collect();
    said.join("; ")
}

fn is_dir(path: &[u8]) -> bool {
    let seen = statx_long(path, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Want::TYPE);
    // What is not there at all is to be said.
    seen.is_ok_and(|seen| seen.file_type == FileType::Directory) || seen.is_err()
}

/// The readable list of what was dumped.
struct List {
    path: Vec<u8>,
    /// `None` for standard error.
    file: Option<Writer>,
    lines: String,
}

impl List {
    fn create(path: &[u8]) -> Result<List, archive::Error> {
        let file = if path == b"-" {
            None
        } else {
            Some(Writer::create(path).map_err(|e| archive::Error::new(Action::WriteMap, path, e))?)
        };
        Ok(List {
            path: path.to_vec(),
            file,
            lines: String::new(),
        })
    }

    fn flush(&mut self) -> Result<(), archive::Error> {
        let lines = std::mem::take(&mut self.lines);
        let written = match &mut self.file {
            Some(file) => file.write_all(lines.as_bytes()),
            None => std::io::stderr().write_all(lines.as_bytes()),
        };
        written.map_err(|e| archive::Error::new(Action::WriteMap, &self.path, e))
    }
}

impl Map for List {
    fn add(&mut self, line: &Line<'_>) -> Result<(), archive::Error> {
        const ENOUGH: usize = 256 << 10;
        let meta = line.meta;
        let kind = match meta.kind() {
            _ if line.is_link => 'h',
            Type::File => '-',
            Type::Directory => 'd',
            Type::Symlink => 'l',
            Type::Fifo => 'p',
            Type::Block => 'b',
            Type::Char => 'c',
            Type::Socket => 's',
            Type::Unknown => '?',
        };
        let size = match kind {
            'b' | 'c' => Size::Device(meta.rdev.major, meta.rdev.minor),
            _ => Size::Bytes(meta.size),
        };
        let (mode, mtime) = (meta.mode & 0o7777, (meta.mtime.sec, meta.mtime.nsec));
        Mapped {
            kind,
            mode,
            uid: meta.uid,
            gid: meta.gid,
            size,
            mtime,
            path: line.path,
        }
        .line(&mut self.lines);
        if self.lines.len() < ENOUGH {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn end(&mut self) -> Result<(), archive::Error> {
        self.flush()
    }

    fn publish(&mut self) -> Result<(), archive::Error> {
        self.file.take().map_or(Ok(()), |file| {
            file.publish()
                .map_err(|e| archive::Error::new(Action::WriteMap, &self.path, e))
        })
    }
}
