//! `fathom mounts --watch`: prints mounts and unmounts when they happen.

use std::os::fd::AsFd;

use base::path::below;
use mounts::watch::{Change, Watch};
use show::json_object;
use show::name::{field, printable};

use crate::error::{Error, Outcome};
use crate::out::Out;

/// A pipe for which poll(2) reports room takes this many bytes without blocking.
const PIPE_BUF: usize = 4096;

struct WatchLine<'a> {
    event: &'static str,
    unique: Option<u64>,
    mount: Option<&'a ondisk::Mount>,
}

json_object!(WatchLine<'_>, |line| {
    "schema": "fathom.mounts.watch/1",
    "event": line.event,
    "id": line.mount.map(|m| m.id),
    "unique_id": line.unique,
    name "target": line.mount.and_then(|m| m.target.as_deref()),
    name "source": line.mount.and_then(|m| m.content.source.as_deref()),
    name "fstype": line.mount.map(|m| m.content.fstype.as_slice()),
});

impl WatchLine<'_> {
    fn text(&self) -> String {
        let name = |name: Option<&[u8]>| name.map_or("-".to_owned(), field);
        match (self.event, self.mount) {
            ("overflow", _) => {
                "overflow: events were lost; run fathom mounts for the present state".to_owned()
            }
            (event, None) => format!(
                "{event} ? {} (unmounted before it could be read)",
                self.unique.unwrap_or(0)
            ),
            ("attach", Some(m)) => format!(
                "attach {} {} {}",
                name(m.target.as_deref()),
                name(m.content.source.as_deref()),
                field(&m.content.fstype)
            ),
            (event, Some(m)) => format!("{event} {}", name(m.target.as_deref())),
        }
    }
}

pub(crate) fn run(root: &[u8], json: bool, out: &Out) -> Outcome {
    let refused = |e| Error::new(format!("cannot watch mounts: {e}"));
    let mut watch = Watch::start().map_err(refused)?;
    let source = match watch.polls_because() {
        None => "fanotify".to_owned(),
        Some(why) => format!("polling mountinfo, which misses short-lived mounts ({why})"),
    };
    out.note(format_args!(
        "watching mounts under {} with {source}; press Ctrl-C to stop",
        printable(root)
    ));
    let mut lost = 0;
    while let Some(change) = watch.wait().map_err(refused)? {
        let (event, id, mount) = match &change {
            Change::Attach(id, mount) => ("attach", Some(*id), mount.as_deref()),
            Change::Detach(id, mount) => ("detach", Some(*id), mount.as_deref()),
            Change::Overflow => ("overflow", None, None),
        };
        lost += usize::from(event == "overflow");
        let is_below = |target: &[u8]| below(root, target).is_some();
        if mount.is_some_and(|m| !m.target.as_deref().is_some_and(is_below)) {
            continue;
        }
        let line = WatchLine {
            event,
            unique: id.filter(|_| watch.ids_are_unique()),
            mount,
        };
        let text = match json {
            true => serde_json::to_string(&line).unwrap_or_default(),
            false => line.text(),
        };
        for piece in format!("{text}\n").as_bytes().chunks(PIPE_BUF) {
            let has_room = watch.wait_for_room(std::io::stdout().as_fd());
            if !has_room.map_err(refused)? {
                return Ok(lost); // nobody reads standard output, and a signal arrived
            }
            out.names(|to| to.write_all(piece))?;
        }
    }
    Ok(lost)
}
