//! A small HTTP server for tests of models behind an endpoint. It ends with the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value as Json;

/// What a server was sent: the head and the body of each request.
pub type Received = Arc<Mutex<Vec<(String, Json)>>>;
/// The status and the body that answer a request, given its place (from 1) and body.
pub type Reply = fn(usize, &Json) -> (&'static str, Json);

/// Starts a server that answers with `reply`: its address up to `/v1`, and what it is sent.
pub fn serve(reply: Reply) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let received = Received::default();
    let log = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&log);
            thread::spawn(move || answer(stream, &log, reply));
        }
    });
    (url, received)
}

fn answer(mut stream: TcpStream, log: &Received, reply: Reply) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Json>(body)
        {
            break (head.to_owned(), body);
        }
    };
    let place = {
        let mut log = log.lock().unwrap();
        log.push((head, body.clone()));
        log.len()
    };
    let (status, reply) = reply(place, &body);
    let (reply, more) = (reply.to_string(), "retry-after: 0\r\nconnection: close\r\n");
    let length = reply.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{more}\r\n{reply}").ok()
}
