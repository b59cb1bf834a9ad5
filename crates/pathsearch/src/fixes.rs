//! What would make the searches of a command cheaper, and by how much.

use crate::kind::Kind;
use crate::lookup::{components, plain, split};
use crate::model::{Manner, Prediction, Prices, Request, lookups_of};
use crate::path::{Better, quoted};
use crate::trace::{Touch, Traced};
use crate::tree::{Look, Node};

/// A change, and what it saves.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What it is about.
    pub kind: Kind,
    /// What to do, in words.
    pub change: String,
    /// Misses that the same start would not make.
    pub misses: u64,
    /// Seconds that those took here.
    pub here: f64,
    /// Requests that the same start would not make on the network file system, with empty caches.
    pub requests: u64,
    /// Seconds that these take there.
    pub seconds: f64,
}

/// What the environment of the command says.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// PATH.
    pub path: Option<Vec<u8>>,
    /// LD_LIBRARY_PATH.
    pub library_path: Option<Vec<u8>>,
    /// PYTHONPATH.
    pub python_path: Option<Vec<u8>>,
}

/// Names that missed, of one kind.
struct Missed<'a> {
    names: Vec<&'a Touch>,
}

impl<'a> Missed<'a> {
    fn new(traced: &'a Traced, is: impl Fn(&Touch) -> bool) -> Missed<'a> {
        Missed {
            names: traced
                .touched
                .iter()
                .filter(|touch| touch.count.misses > 0 && is(touch))
                .collect(),
        }
    }

    fn fix(&self, kind: Kind, change: String, per_miss: f64, ask: &mut Ask<'_>) -> Option<Fix> {
        let misses = self.names.iter().map(|touch| touch.count.misses).sum();
        (misses > 0).then(|| {
            let names: Vec<Vec<u8>> = self.names.iter().map(|touch| touch.path.to_vec()).collect();
            let once = lookups_of(&names, ask.look, ask.manner);
            let requests = if ask.manner.keeps_misses {
                once
            } else {
                once.max(self.far(ask))
            };
            Fix {
                kind,
                change,
                misses,
                here: per_miss * misses as f64,
                requests,
                seconds: ask.seconds(requests),
            }
        })
    }

    /// Misses on the file system that the model is about.
    fn far(&self, ask: &mut Ask<'_>) -> u64 {
        self.names
            .iter()
            .filter(|touch| ask.look.far(split(&touch.path).0))
            .map(|touch| touch.count.misses)
            .sum()
    }
}

/// Whom to ask what is far away.
pub struct Ask<'a> {
    /// The tree.
    pub look: &'a mut dyn Look,
    /// What the client keeps.
    pub manner: &'a Manner,
    /// What requests take.
    pub prices: &'a Prices,
}

impl Ask<'_> {
    /// What so many look-ups take there.
    fn seconds(&self, lookups: u64) -> f64 {
        lookups as f64 * self.prices.of(Request::Lookup)
    }
}

/// Everything that would help, by what it saves, most first. `start` is what the whole start asks
/// for.
pub fn fixes(
    traced: &Traced,
    around: &Surroundings,
    better: Option<&Better>,
    start: &Prediction,
    ask: &mut Ask<'_>,
) -> Vec<Fix> {
    let mut all = Vec::new();
    let per_miss = |kind: Kind| {
        let all = traced
            .touched
            .iter()
            .filter(|touch| touch.kind == kind && touch.count.hits == 0);
        let (nanos, misses) = all.fold((0, 0), |(n, m), touch| {
            (n + touch.nanos, m + touch.count.misses)
        });
        if misses == 0 {
            0.0
        } else {
            nanos as f64 / 1e9 / misses as f64
        }
    };
    if let Some(better) = better.filter(|better| better.saves > 0) {
        // Of a directory that is not there, one look-up says so, whatever is looked for in it.
        let gone = better.left_out.iter().map(|dir| plain(dir));
        let gone = gone
            .filter(|dir| ask.look.node(dir) == Node::Missing && ask.look.far(dir))
            .count() as u64;
        let once = lookups_of(&better.names, ask.look, ask.manner) + gone;
        let requests = if ask.manner.keeps_misses {
            once
        } else {
            let far = better
                .names
                .iter()
                .filter(|name| ask.look.far(split(name).0))
                .count() as u64;
            once.max(better.saves * far / better.names.len().max(1) as u64) // the same name is asked for again each time
        };
        let here = per_miss(Kind::Path) * better.saves as f64;
        let seconds = ask.seconds(requests);
        all.push(Fix {
            kind: Kind::Path,
            change: path_change(better),
            misses: better.saves,
            here,
            requests,
            seconds,
        });
    }
    let listed = |list: &Option<Vec<u8>>| -> Vec<Vec<u8>> {
        let list = list.as_deref().unwrap_or_default();
        list.split(|&b| b == b':')
            .filter(|dir| dir.starts_with(b"/"))
            .map(plain)
            .collect()
    };
    let libraries = listed(&around.library_path);
    let modules = listed(&around.python_path);
    let under = |dirs: &[Vec<u8>], touch: &Touch| {
        dirs.iter()
            .any(|dir| mounts::path::below(dir, &touch.path).is_some())
    };
    let of = |kind: Kind| move |touch: &Touch| touch.kind == kind;
    let mut add = |missed: &Missed<'_>, kind: Kind, change: String| {
        all.extend(missed.fix(kind, change, per_miss(kind), ask));
    };

    let linker = |touch: &Touch| touch.kind == Kind::Linker && split(&touch.path).0 != b"/etc";
    let by_variable = Missed::new(traced, |touch| linker(touch) && under(&libraries, touch));
    add(
        &by_variable,
        Kind::Linker,
        "unset LD_LIBRARY_PATH, and give its directories to ld.so.cache: a file in /etc/ld.so.conf.d, then ldconfig"
            .to_owned(),
    );
    let by_runpath = Missed::new(traced, |touch| linker(touch) && !under(&libraries, touch));
    add(
        &by_runpath,
        Kind::Linker,
        format!(
            "let ld.so go straight to the libraries of {}: needed by absolute names (patchelf --replace-needed), or a RUNPATH of \
             just the directories that have them (patchelf --set-rpath), or those directories in ld.so.cache and no RUNPATH",
            who(traced, Kind::Linker)
        ),
    );

    let extra = |touch: &Touch| {
        let (_, name) = split(&touch.path);
        let customize = [&b"sitecustomize"[..], b"usercustomize"]
            .iter()
            .any(|word| name.starts_with(word));
        customize || under(&modules, touch) || components(&touch.path).any(|part| part == b".local")
    };
    let by_extras = Missed::new(traced, |touch| touch.kind == Kind::Python && extra(touch));
    add(
        &by_extras,
        Kind::Python,
        "run python with -I and -S: without PYTHONPATH, the user's packages and site-packages, where the program needs none of them"
            .to_owned(),
    );
    let by_modules = Missed::new(traced, |touch| touch.kind == Kind::Python && !extra(touch));
    add(
        &by_modules,
        Kind::Python,
        "put the modules that it imports into one zip file on sys.path (python -m zipfile), or freeze the program (PyInstaller, \
         zipapp, shiv): a module is then found without a look-up"
            .to_owned(),
    );
    for (kind, change) in [
        (
            Kind::Perl,
            "shorten @INC: unset PERL5LIB and PERLLIB, or pack the program (pp), so that modules are where perl looks first",
        ),
        (
            Kind::Ruby,
            "cache where libraries are (bootsnap), or run ruby with --disable-gems where the program needs none",
        ),
        (
            Kind::Node,
            "bundle the program into one file (esbuild, ncc): modules are then not searched for",
        ),
        (
            Kind::Gcc,
            "put the directories first that have what is included and linked (-I, -L), or cache the results (ccache)",
        ),
        (
            Kind::Locale,
            "set LC_ALL to a locale by the name under which it is installed (locale -a: C.utf8, not C.UTF-8), or to C",
        ),
        (
            Kind::Terminfo,
            "set TERM to a terminal whose description is installed (infocmp), or TERMINFO to where it is",
        ),
    ] {
        add(&Missed::new(traced, of(kind)), kind, change.to_owned());
    }
    let (requests, files) = (start.cold.waited(), start.files);
    if requests > 0 {
        let size = start.bytes.div_ceil(1 << 20);
        all.push(Fix {
            kind: Kind::Other,
            change: format!(
                "copy what it uses to a local disk, {files} files of {size} MiB at most (a container image, or an archive unpacked \
                 at the start of the job): no search then leaves the machine"
            ),
            misses: 0,
            here: 0.0,
            requests,
            seconds: ask.prices.seconds(&start.cold),
        });
    }
    all.sort_by(|a, b| b.requests.cmp(&a.requests).then(b.misses.cmp(&a.misses)));
    all
}

/// Programs that searched for something in vain, as they are called, three at most.
fn who(traced: &Traced, kind: Kind) -> String {
    let mut names: Vec<&[u8]> = Vec::new();
    let missed = traced
        .searches
        .iter()
        .filter(|search| search.kind == kind && search.misses() > 0);
    for search in missed.filter(|search| search.name != b"ld.so.preload") {
        let name = split(&search.program).1;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let shown: Vec<String> = names.iter().take(3).map(|name| printable(name)).collect();
    match (shown.len(), names.len()) {
        (0, _) => "the program".to_owned(),
        (shown_all, all) if shown_all == all => shown.join(", "),
        (few, all) => format!("{} and {} more", shown.join(", "), all - few),
    }
}

fn path_change(better: &Better) -> String {
    let shown = |names: &[Vec<u8>]| {
        names
            .iter()
            .map(|name| printable(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut change = format!("set PATH={}", printable(&quoted(&better.path)));
    if !better.left_out.is_empty() {
        change.push_str(&format!(
            "; without {}, not there or in it twice: what is made there later is not found",
            shown(&better.left_out)
        ));
    }
    if better.moved {
        change.push_str(
            "; every name leads to the program that it leads to now, until one of the same name is installed elsewhere",
        );
    }
    change
}

/// A name for a sentence; whoever shows it escapes what a terminal may not have.
fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
