//! Tests of stores whose endpoint uses TLS, and of proxies.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use super::server::{Server, ServerOptions, needs, small_tree, url};
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::{Need, require, run};

/// Creates a certificate authority (`ca.pem`), and a certificate signed by it for 127.0.0.1
/// (`server.pem`, `server.key`).
fn make_certificates(at: &Path) {
    let request = |name: &str, own: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl
            .current_dir(at)
            .args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"])
            .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-subj", &format!("/CN=fathom {name}")])
            .args(["-keyout", &format!("{name}.key")])
            .args(["-out", &format!("{name}.pem")])
            .args(own);
        tool(&mut openssl);
    };
    request("ca", &["-addext", "keyUsage=critical,keyCertSign"]);
    request(
        "server",
        &[
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
    );
}

/// Serves connections at a port that the kernel chooses.
fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for client in listener.incoming() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || client.and_then(|client| serve(client)));
        }
    });
    port
}

/// Forwards data in both directions, until the server closes the connection.
fn pass(client: TcpStream, server: impl Into<OwnedFd>) -> io::Result<()> {
    let server = File::from(server.into());
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || io::copy(&mut &from, &mut &to));
    io::copy(&mut &server, &mut &client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn endpoints_with_tls_are_verified_and_reached_through_a_proxy() {
    if !require(&needs()) || !require(&[Need::Program("openssl")]) {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    make_certificates(keys.path());
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let server = Server::with(ServerOptions {
        tls: Some([&path("server.pem"), &path("server.key")]),
        ..ServerOptions::default()
    });
    small_tree(&server.place().join("tree"));
    let socket = server.place().join("socket");
    let port = listen(move |client| pass(client, UnixStream::connect(&socket)?));
    let endpoint = format!("https://127.0.0.1:{port}");
    let fathom = |key: &str| {
        let mut command = server.fathom(args!["dump", "tree", "-o", url(key)]);
        command
            .env("AWS_ENDPOINT_URL", &endpoint)
            .env("SSL_CERT_FILE", path("ca.pem"))
            .env_remove("AWS_ALLOW_HTTP");
        command
    };
    run(&mut fathom("a.tar")).exits(0);
    let direct = fs::read(server.object("a.tar")).unwrap();

    let unknown = run(fathom("b.tar").env_remove("SSL_CERT_FILE")).refused();
    assert!(
        unknown.stderr.contains("TLS: ") && unknown.stderr.contains("UnknownIssuer"),
        "{unknown}"
    );
    assert!(unknown.stderr.contains("hint: "), "{unknown}");
    let other_name = endpoint.replace("127.0.0.1", "localhost");
    let other_name = run(fathom("b.tar").env("AWS_ENDPOINT_URL", &other_name)).refused();
    assert!(other_name.stderr.contains("TLS: "), "{other_name}");
    assert!(!server.object("b.tar").exists());

    let asked = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&asked);
    let proxy = listen(move |client| {
        let mut from = BufReader::new(client.try_clone()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && from.read_line(&mut head)? > 0 {}
        let target = head.split(' ').nth(1).unwrap().to_owned();
        shared
            .lock()
            .unwrap()
            .push(head.lines().next().unwrap().to_owned());
        let server = TcpStream::connect(&target)?;
        (&client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        pass(client, server)
    });
    let proxy = format!("http://127.0.0.1:{proxy}");
    let mut through = fathom("c.tar");
    through.env("HTTPS_PROXY", &proxy).env_remove("NO_PROXY");
    run(&mut through).exits(0);
    assert_eq!(fs::read(server.object("c.tar")).unwrap(), direct);
    let asked_for = asked.lock().unwrap().clone();
    let expected = format!("CONNECT 127.0.0.1:{port} HTTP/1.1");
    assert!(
        !asked_for.is_empty() && asked_for.iter().all(|line| *line == expected),
        "{asked_for:?}"
    );
    // The proxy is not used for hosts in NO_PROXY.
    run(fathom("d.tar").env("HTTPS_PROXY", &proxy)).exits(0);
    assert_eq!(asked.lock().unwrap().len(), asked_for.len());
}
