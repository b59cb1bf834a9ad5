//! `fathom mounts --watch`: attaches and detaches as they happen.

use std::os::fd::AsFd;

use mounts::path::below;
use mounts::watch::{Change, Watch};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use show::name::{entry, field, printable};

use crate::error::{Error, Outcome};
use crate::out::Out;

/// What a pipe that has room takes without making us wait, in bytes.
const PIPE_BUF: usize = 4096;

/// One line of the output.
struct Line<'a> {
    event: &'static str,
    unique: Option<u64>,
    mount: Option<&'a ondisk::Mount>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mount = self.mount;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", "fathom.mounts.watch/1")?;
        map.serialize_entry("event", self.event)?;
        map.serialize_entry("id", &mount.map(|m| m.id))?;
        map.serialize_entry("unique_id", &self.unique)?;
        entry(&mut map, "target", mount.and_then(|m| m.target.as_deref()))?;
        entry(
            &mut map,
            "source",
            mount.and_then(|m| m.content.source.as_deref()),
        )?;
        entry(
            &mut map,
            "fstype",
            mount.map(|m| m.content.fstype.as_slice()),
        )?;
        map.end()
    }
}

impl Line<'_> {
    fn text(&self) -> String {
        let name = |name: Option<&[u8]>| name.map_or("-".to_owned(), field);
        match (self.event, self.mount) {
            ("overflow", _) => {
                "overflow: changes were lost; run fathom mounts to see what is there".to_owned()
            }
            (event, None) => format!(
                "{event} ? {} (gone before it could be described)",
                self.unique.unwrap_or(0)
            ),
            ("attach", Some(m)) => {
                let (target, source) =
                    (name(m.target.as_deref()), name(m.content.source.as_deref()));
                format!("attach {target} {source} {}", field(&m.content.fstype))
            }
            (event, Some(m)) => format!("{event} {}", name(m.target.as_deref())),
        }
    }
}

pub(crate) fn run(root: &[u8], json: bool, out: &Out) -> Outcome {
    let refused = |e| Error::new(format!("cannot watch for mounts: {e}"));
    let mut watch = Watch::start().map_err(refused)?;
    let source = match watch.polls_because() {
        None => "fanotify: every attach and detach".to_owned(),
        Some(why) => format!(
            "polling mountinfo ({why}): a mount that comes and goes between two looks is not seen"
        ),
    };
    out.note(format_args!(
        "watching {} by {source}; Ctrl-C ends it",
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
        let elsewhere = mount.is_some_and(|m| {
            m.target
                .as_deref()
                .is_none_or(|target| below(root, target).is_none())
        });
        if elsewhere {
            continue;
        }
        let line = Line {
            event,
            unique: id.filter(|_| watch.ids_are_unique()),
            mount,
        };
        let text = if json {
            serde_json::to_string(&line).unwrap_or_default()
        } else {
            line.text()
        };
        for piece in format!("{text}\n").as_bytes().chunks(PIPE_BUF) {
            if !watch
                .wait_for_room(std::io::stdout().as_fd())
                .map_err(refused)?
            {
                return Ok(lost); // nobody reads, and we were told to stop
            }
            out.data(piece)?;
        }
    }
    Ok(lost)
}
