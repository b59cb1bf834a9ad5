//! Tests of the commands of docs/backup.md that use a bucket.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{AWS, Server, needs, small_tree};
use crate::support::build::dir;
use crate::support::effort::effort;
use crate::support::need::tool_path;
use crate::support::recipe::{Days, block, recipe_command, search_path, service};
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom_path, require, run};

/// Sets the environment variables of `/etc/fathom/s3.env` for a command.
fn with_credentials(server: &Server, mut command: Command) -> Command {
    for (name, value) in server.fathom([""; 0]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(server.place());
    command
}

/// Runs a service for some days, while the tree changes; returns the last run. Each day adds an
/// object.
fn run_for_days(
    server: &Server,
    unit: &str,
    paths: &[(&str, &str)],
    programs: &OsStr,
    (days, tree): (&Days, &Path),
) -> String {
    let (mut last, number) = (String::new(), effort(2, 30));
    let objects = |server: &Server| {
        let under = |at: PathBuf| fs::read_dir(at).into_iter().flatten();
        let files = under(server.object("")).chain(under(server.object("catalogs")));
        files
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
            .count()
    };
    for day in 0..number {
        fs::write(tree.join(format!("of day {day}")), "new").unwrap();
        for mut command in service("backup.md", unit, paths, programs) {
            last = days.tell(day, &mut command);
            run(&mut with_credentials(server, command)).exits(0);
        }
        assert_eq!(objects(server), day + 1);
    }
    last
}

#[test]
fn encrypted_archives_are_restored() {
    let programs = [
        Need::Program("age"),
        Need::Program("age-keygen"),
        Need::Tool(AWS),
    ];
    if !require(&needs()) || !require(&programs) {
        return;
    }
    let server = Server::start();
    let place = server.place();
    let tree = place.join("tree");
    small_tree(&tree);
    let key = place.join("key");
    tool(Command::new("age-keygen").arg("-o").arg(&key));
    let recipient = tool(Command::new("age-keygen").arg("-y").arg(&key));
    fs::write(place.join("recipients"), recipient).unwrap();
    let path = |name: &str| place.join(name).to_str().unwrap().to_owned();
    let paths = [
        ("/etc/fathom/recipients", &path("recipients")[..]),
        ("/srv ", &format!("{} ", path("tree"))),
    ];
    let days = Days::new(&dir(place.join("bin")));
    let programs = search_path(&[days.program(), fathom_path(), &tool_path(AWS)]);
    let name = run_for_days(
        &server,
        "fathom-s3.service",
        &paths,
        &programs,
        (&days, &tree),
    );
    let name = format!("srv-{name}.tar.zst.age");
    let object = server.object(&name);
    assert!(
        fs::read(&object)
            .unwrap()
            .starts_with(b"age-encryption.org/v1")
    );
    fs::create_dir(place.join("out")).unwrap();
    let (key, out) = (path("key"), path("out"));
    let paths = [
        ("srv-2026-11-20.tar.zst.age", &name[..]),
        ("KEY", &key),
        ("/mnt", &out),
    ];
    let mut restore = recipe_command("backup.md", "To restore:", &paths);
    restore.env("PATH", &programs);
    run(&mut with_credentials(&server, restore)).exits(0);
    let restored = place.join("out").join(tree.strip_prefix("/").unwrap());
    same(&kept(&tree), &kept(&restored), "restored");
}

#[test]
fn catalogs_in_a_bucket_are_queried() {
    let python = tool_path("venv/bin/python");
    if !require(&needs()) || !require(&[Need::Tool("venv/bin/python")]) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    let paths = [("/srv", tree.to_str().unwrap())];
    let days = Days::new(&dir(server.place().join("bin")));
    let programs = search_path(&[days.program(), fathom_path()]);
    let last = run_for_days(
        &server,
        "fathom-catalog.service",
        &paths,
        &programs,
        (&days, &tree),
    );
    assert!(server.object(&format!("catalogs/{last}.parquet")).is_file());
    let mut query = Command::new(python);
    query.arg("-c").arg(block("backup.md", "DuckDB in Python"));
    let said = run(&mut with_credentials(&server, query)).exits(0);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("backups/catalogs/2") && said.contains(".parquet"),
        "{said}"
    );
}
