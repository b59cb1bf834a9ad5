//! The path searches of a command: which names it looks up in which directories, the cost of the
//! same start on a network file system, and changes that would make it cheaper.
//!
//! | module | contents |
//! |---|---|
//! | `report` | the result: combines all of the following |
//! | `kind` | kinds of searches, and counts by kind |
//! | `lookup` | which calls are lookups, and the directory that a name is looked up in |
//! | `environment` | environment variables that affect searches |
//! | `miss_prices` | prices of failed lookups, in place of times of a slow meter |
//! | `classify` | the kind of a lookup |
//! | `family` | the language or purpose of a program |
//! | `search_name` | the name that a search is for |
//! | `group` | the search that a lookup belongs to |
//! | `recorder` | records the calls that a meter reports |
//! | `trace` | the recorded lookups |
//! | `tree` | the file tree and its file systems, as the model needs them |
//! | `request` | requests of a network file system, their prices, and the behavior of clients |
//! | `client` | a simulated client of a network file system: its caches and requests |
//! | `readahead` | the reads of a file that the kernel's readahead makes |
//! | `model` | the requests of a start |
//! | `calibrate` | prices and client behavior, measured on a mount |
//! | `load` | many nodes that start at the same time |
//! | `predict` | predicts a start on a network file system |
//! | `order` | the best order of directories |
//! | `path` | a better PATH |
//! | `change` | changes of the environment or of files |
//! | `shorten` | shorter lists of directories, in variables and in programs |
//! | `bytecode` | Python modules that are compiled at each start |
//! | `fixes` | changes that would help, and their savings |
//! | `startup` | the cost of starting programs on this machine |
//! | `warning` | why a report is incomplete |
#![forbid(unsafe_code)]

mod bytecode;
mod calibrate;
mod change;
mod classify;
mod client;
mod environment;
mod family;
mod fixes;
mod group;
mod kind;
mod load;
mod lookup;
mod miss_prices;
mod model;
mod order;
mod path;
mod predict;
mod readahead;
mod recorder;
mod report;
mod request;
mod search_name;
mod shorten;
mod startup;
mod trace;
mod tree;
mod warning;

use meter::call::Command;
use meter::names::InheritedFiles;

use miss_prices::price_misses;
use recorder::Recorder;
use tree::{MountPoints, time_miss};

pub use change::{Change, RunpathChange};
pub use environment::Environment;
pub use fixes::{Fix, is_worthwhile};
pub use group::{Search, TriedPath};
pub use kind::{Count, Kind, KindCounts};
pub use load::StartTime;
pub use model::StartRequests;
pub use path::{ElementState, PathElement, PathProposal, is_installed, is_silent, path_elements};
pub use predict::{Prediction, RoundTrip, RttSource, SearchOptions, StartModel};
pub use report::{DirectoryReport, SearchReport};
pub use request::{ASSUMED_RTT, ClientBehavior, Prices, Request, Requests};
pub use startup::{ProgramStart, StartupReport};
pub use trace::{DirectoryLookups, Execution, Shim, Totals, Trace};
pub use tree::RemoteScope;
pub use warning::WarningKind;

/// Runs a command under the meter with this name, and reports on its searches.
///
/// # Errors
/// The errors of the meter.
pub fn search(
    command: &Command,
    meter: &str,
    environment: &Environment,
    options: &SearchOptions,
) -> Result<SearchReport, meter::Error> {
    let mut recorder = Recorder::new(InheritedFiles::from_this_process(), environment.clone());
    let metered = meter::run_exact(meter, command, &mut recorder)?;
    let mut trace = recorder.finish();
    let mounts = MountPoints::read();
    if metered.stops_processes() {
        let is_network = |dir: &[u8]| mounts.find(dir).is_some_and(|mount| mount.network);
        price_misses(&mut trace, is_network, time_miss);
    }
    Ok(SearchReport::new(
        trace,
        metered,
        &mounts,
        environment,
        options,
    ))
}
