//! Stores in a bucket that cannot be opened: said in one line and at once, with the bucket and what to do,
//! against a server on this machine that answers as the services do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{Done, Workspace};

const PIPELINE: &str = "pipeline: p\nstages:\n  t: { sql: SELECT 1 AS a }\n";

/// A server that gives every request the same answer, and counts them.
struct Service {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Service {
    fn start(reply: fn(&str) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let count = Arc::clone(&count);
                thread::spawn(move || answer(stream, &count, reply));
            }
        });
        Self { url, asked }
    }

    /// Runs a pipeline with a store in a bucket of this service.
    fn run(&self, args: &[&str]) -> Done {
        let workspace = Workspace::with(PIPELINE);
        let output = workspace
            .command(args)
            .env("PROOFMILL_STORE", "s3://the-bucket/a/prefix")
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "hunter2")
            .env_remove("AWS_REGION")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

fn answer(mut stream: TcpStream, count: &AtomicUsize, reply: fn(&str) -> String) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let body = length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
            let start = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            if bytes.len() >= start + body {
                count.fetch_add(1, Ordering::SeqCst);
                let method = head.split(' ').next().unwrap_or_default().to_owned();
                return stream.write_all(reply(&method).as_bytes()).ok();
            }
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
    }
}

fn xml(status: &str, code: &str, message: &str) -> String {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
         <RequestId>4442587FB7D0A2F9</RequestId></Error>"
    );
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

#[test]
fn a_store_that_cannot_be_opened_is_said_at_once() {
    type Case = (fn(&str) -> String, &'static str, &'static str);
    let cases: [Case; 8] = [
        (
            |_| xml("404 Not Found", "NoSuchBucket", "The specified bucket does not exist"),
            "there is no bucket or container `the-bucket`",
            "create it first",
        ),
        // A service that hides the bucket from who reads: only the put tells.
        (
            |method| match method {
                "put" => xml("404 Not Found", "NotFound", "no"),
                _ => xml("404 Not Found", "NoSuchKey", "The specified key does not exist."),
            },
            "there is no bucket or container `the-bucket`",
            "create it first",
        ),
        (
            |_| xml("403 Forbidden", "InvalidAccessKeyId", "The key does not exist"),
            "the credentials are not accepted for `the-bucket`",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            |_| xml("403 Forbidden", "SignatureDoesNotMatch", "The signature does not match"),
            "the credentials are not accepted for `the-bucket`",
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            |_| xml("403 Forbidden", "AccessDenied", "Access Denied"),
            "the credentials may not read and write `the-bucket`",
            "permission to read, write, delete and list",
        ),
        (
            |method| match method {
                "put" => xml("403 Forbidden", "AccessDenied", "Access Denied"),
                _ => xml("404 Not Found", "NoSuchKey", "The specified key does not exist."),
            },
            "the credentials may not read and write `the-bucket`",
            "permission to read, write, delete and list",
        ),
        (
            |_| xml("400 Bad Request", "AuthorizationHeaderMalformed", "expecting 'eu-west-1'"),
            "`the-bucket` is in another region or at another endpoint",
            "AWS_REGION",
        ),
        (
            |_| {
                "HTTP/1.1 301 Moved Permanently\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    .to_owned()
            },
            "`the-bucket` is in another region or at another endpoint",
            "AWS_REGION",
        ),
    ];
    for (reply, says, help) in cases {
        let service = Service::start(reply);
        let done = service.run(&["run", "p.yaml"]).expect(2);
        let asked = service.asked.load(Ordering::SeqCst);
        assert!(asked <= 2, "asked {asked} times: {}", done.stderr);
        let done = done
            .says(&format!("error: the store `s3://the-bucket/a/prefix` cannot be opened: {says}"))
            .says(help);
        let lines = done.stderr.lines().count();
        assert!(lines <= 3, "{lines} lines: {}", done.stderr);
        for unwanted in ["<?xml", "RequestId", "unknown", "hunter2", "AKIAEXAMPLE"] {
            assert!(!done.stderr.contains(unwanted), "`{unwanted}` is in: {}", done.stderr);
        }
        // Other commands open it in the same way.
        for args in [&["runs"][..], &["plan", "p.yaml"]] {
            service.run(args).expect(2).says(says);
        }
    }
}

#[test]
fn a_wrong_setting_of_the_environment_is_a_mistake_of_the_command() {
    let service =
        Service::start(|_| xml("400 Bad Request", "InvalidBucketName", "The name is not valid"));
    let done = service.run(&["run", "p.yaml"]).expect(2);
    done.says("the service does not accept the request")
        .says("400 InvalidBucketName: The name is not valid");
    assert!(service.asked.load(Ordering::SeqCst) <= 2);
}

#[test]
fn the_hints_after_a_run_name_the_store_once() {
    let workspace = Workspace::with(PIPELINE);
    let store = format!("{}/a/store/with/a/long/name", workspace.path("s").display());
    let done = workspace.proofmill(&["run", "p.yaml", "--store", &store]).expect(0);
    let hint = done.stderr.split_once("look at them").unwrap().1;
    let commands: Vec<&str> = hint.lines().filter(|line| line.contains("proofmill ")).collect();
    assert_eq!(commands.len(), 2, "{hint}");
    for command in commands {
        assert_eq!(command.matches("--store").count(), 1, "{hint}");
        assert_eq!(command.matches("--run").count(), 1, "{hint}");
    }
}
