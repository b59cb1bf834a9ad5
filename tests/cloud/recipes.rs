//! The recipes of docs/backup.md that have a bucket.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::server::{AWS, Server, needs, small_tree};
use crate::support::need::tool_path;
use crate::support::recipe::{block, search_path, service};
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom_path, require, run};

/// A command with what `/etc/fathom/s3.env` has.
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

fn only_object(server: &Server, under: &str) -> PathBuf {
    let found = fs::read_dir(server.object(under)).unwrap();
    let mut found = found
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let only = found.next().unwrap();
    assert_eq!(found.next(), None);
    only
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
    let programs = search_path(&[fathom_path(), &tool_path(AWS)]);
    for command in service("fathom-s3.service", &paths, &programs) {
        run(&mut with_credentials(&server, command)).exits(0);
    }
    let object = only_object(&server, "");
    assert!(
        fs::read(&object)
            .unwrap()
            .starts_with(b"age-encryption.org/v1")
    );
    let name = object.file_name().unwrap().to_str().unwrap().to_owned();
    fs::create_dir(place.join("out")).unwrap();
    let restore = block("backup.md", "To restore:")
        .replace("srv-2026-11-20.tar.zst.age", &name)
        .replace("KEY", &path("key"))
        .replace("/mnt", &path("out"));
    let mut shell = Command::new("sh");
    shell.arg("-ec").arg(restore).env("PATH", &programs);
    run(&mut with_credentials(&server, shell)).exits(0);
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
    let programs = search_path(&[fathom_path()]);
    for command in service("fathom-catalog.service", &paths, &programs) {
        run(&mut with_credentials(&server, command)).exits(0);
    }
    only_object(&server, "catalogs");
    let mut query = Command::new(python);
    query.arg("-c").arg(block("backup.md", "DuckDB in Python"));
    let said = run(&mut with_credentials(&server, query)).exits(0);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("backups/catalogs/2") && said.contains(".parquet"),
        "{said}"
    );
}
