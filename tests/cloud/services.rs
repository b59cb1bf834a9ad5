//! Azure Blob Storage and Google Cloud Storage: credentials and errors. What the tests of writing and of state
//! directories do, they do there, too.

use std::fs;
use std::process::Command;

use super::server::{SAS, Server, Software, needs, url};
use crate::support::run::args;
use crate::support::{fathom, require, run};

fn refused(command: &mut Command, says: &str, hint: &str) {
    let ran = run(command).refused();
    assert!(ran.stderr.contains(says), "{says}: {ran}");
    assert!(ran.stderr.contains(hint), "{hint}: {ran}");
    assert!(!ran.stderr.contains("c2VjcmV0"), "{ran}");
}

/// No server is needed for these.
#[test]
fn credentials_that_are_missing_or_malformed_are_named() {
    let azure = || {
        let mut list = fathom(["list", "az://backups/a.tar"]);
        list.env("AZURE_STORAGE_ACCOUNT_NAME", "account")
            .env("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
            .env_remove("AZURE_STORAGE_ENDPOINT");
        list
    };
    let key = "AZURE_STORAGE_ACCOUNT_KEY";
    refused(
        azure().env_remove("AZURE_STORAGE_ACCOUNT_NAME"),
        "the variable AZURE_STORAGE_ACCOUNT_NAME is not set",
        "set AZURE_STORAGE_ACCOUNT_NAME",
    );
    refused(
        azure().env(key, "c2VjcmV0!"),
        "the credentials in AZURE_STORAGE_ACCOUNT_KEY cannot be used",
        "check the value",
    );
    let http = ["list", "az://b/k", "--endpoint-url", "http://127.0.0.1:1"];
    let mut plain = fathom(http);
    plain.env("AZURE_STORAGE_ACCOUNT_NAME", "account");
    refused(&mut plain, "without TLS", "AZURE_ALLOW_HTTP");
    let mut closed = fathom(http);
    closed
        .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
        .env("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
        .env("AZURE_ALLOW_HTTP", "true")
        .env("NO_PROXY", "127.0.0.1");
    refused(&mut closed, "cannot connect", "--endpoint-url");
    refused(
        fathom(["list", "gs://backups/a.tar"])
            .env("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent"),
        "the credentials in GOOGLE_APPLICATION_CREDENTIALS cannot be used",
        "check the value",
    );
    let plain = ["list", "gs://b/k", "--endpoint-url", "http://127.0.0.1:1"];
    refused(&mut fathom(plain), "without TLS", "GOOGLE_ALLOW_HTTP");
    refused(
        &mut fathom(["list", "gs://b"]),
        "no bucket and key",
        "gs://BUCKET/KEY",
    );
}

#[test]
fn errors_of_the_service_are_one_clear_line() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    let absent = url("none");
    refused(
        &mut server.fathom(["list", &absent]),
        "the object does not exist",
        "check the name",
    );
    let other = absent.replace("backups", "nowhere");
    let says = match Software::chosen() {
        // Its answer does not say what does not exist.
        Software::FakeGcs => "the object does not exist",
        _ => "the bucket does not exist",
    };
    refused(&mut server.fathom(["list", &other]), says, "check the name");
    if Software::chosen() != Software::Azurite {
        return;
    }
    let dump = || server.fathom(args!["dump", "tree", "-o", url("a.tar")]);
    // Azure itself says AuthenticationFailed, for which `remote` has a test.
    refused(
        dump().env("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
        "access denied",
        "permission",
    );
    let with_sas = |mut command: Command| {
        command
            .env_remove("AZURE_STORAGE_ACCOUNT_KEY")
            .env("AZURE_STORAGE_SAS_TOKEN", SAS);
        command
    };
    run(&mut with_sas(dump())).exits(0);
    run(&mut with_sas(server.fathom(["verify", &url("a.tar")]))).exits(0);
    assert!(server.content("a.tar").is_some());
}
