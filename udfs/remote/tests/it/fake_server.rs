//! A server that answers by script and remembers what it was sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What happens to one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A whole response; headers are lines that end with `\r\n`.
    Say { status: u16, headers: String, body: String },
    /// A response after some real time.
    Late(Duration, String),
    /// A response whose second half never comes.
    Cut(String),
    /// The connection stays open and silent.
    Hang,
    /// The connection is closed without a word.
    Close,
}

impl Reply {
    pub fn ok(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Say { status, headers: String::new(), body: body.into() }
    }

    pub fn with(status: u16, headers: &str, body: &str) -> Self {
        Self::Say { status, headers: headers.to_owned(), body: body.to_owned() }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// `POST /v1/completions HTTP/1.1` and the headers, lower case.
    pub head: String,
    pub body: Value,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Reply>,
    received: Vec<Received>,
    in_flight: usize,
    in_flight_max: usize,
    late: usize,
    late_max: usize,
}

/// The server; the last reply of its script repeats.
#[derive(Clone, Debug)]
pub struct FakeServer {
    pub base_url: String,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let script = script.into_iter().collect();
        let state = Arc::new(Mutex::new(State { script, ..State::default() }));
        let server = Self { base_url, state };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        server
    }

    pub fn received(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }

    pub fn in_flight_max(&self) -> usize {
        self.state.lock().unwrap().in_flight_max
    }

    /// Most late replies that were under way at a time.
    pub fn late_max(&self) -> usize {
        self.state.lock().unwrap().late_max
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(received) = receive(&mut stream).await else { return };
        let reply = {
            let mut state = self.state.lock().unwrap();
            state.received.push(received);
            state.in_flight += 1;
            state.in_flight_max = state.in_flight_max.max(state.in_flight);
            let last = state.script.len() == 1;
            if last { state.script[0].clone() } else { state.script.pop_front().unwrap() }
        };
        let bytes = match reply {
            Reply::Say { status, headers, body } => response(status, &headers, &body, body.len()),
            Reply::Late(wait, body) => {
                {
                    let mut state = self.state.lock().unwrap();
                    state.late += 1;
                    state.late_max = state.late_max.max(state.late);
                }
                tokio::time::sleep(wait).await;
                self.state.lock().unwrap().late -= 1;
                response(200, "", &body, body.len())
            }
            Reply::Cut(body) => response(200, "", &body[..body.len() / 2], body.len()),
            Reply::Hang => std::future::pending().await,
            Reply::Close => String::new(),
        };
        self.state.lock().unwrap().in_flight -= 1;
        // The client may have gone.
        let _ = stream.write_all(bytes.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

async fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head_end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?;
            if bytes.len() >= end + 4 + length.parse::<usize>().ok()? {
                let body = serde_json::from_slice(&bytes[end + 4..]).ok()?;
                return Some(Received { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn response(status: u16, headers: &str, body: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}
