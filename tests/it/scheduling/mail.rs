//! A small mail server for tests. It ends with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a server was told, line by line.
pub type Told = Arc<Mutex<Vec<String>>>;

/// Starts a server that offers `offers` and takes all: its port, and what it is told.
pub fn serve_mail(offers: &'static [&'static str]) -> (u16, Told) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lines = Told::default();
    let log = Arc::clone(&lines);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&log);
            thread::spawn(move || talk(&stream, &log, offers));
        }
    });
    (port, lines)
}

fn talk(mut stream: &TcpStream, log: &Told, offers: &[&str]) -> Option<()> {
    write!(stream, "220 mail.test\r\n").ok()?;
    let (mut lines, mut is_data) = (BufReader::new(stream), false);
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_owned();
        log.lock().unwrap().push(line.clone());
        let word = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let reply = match (is_data, word.as_str()) {
            (true, ".") => {
                is_data = false;
                "250 taken"
            }
            (true, _) => continue,
            (false, "EHLO") => {
                offers.iter().try_for_each(|offer| write!(stream, "250-{offer}\r\n")).ok()?;
                "250 8BITMIME"
            }
            (false, "DATA") => {
                is_data = true;
                "354 go on"
            }
            (false, "AUTH") => "235 welcome",
            (false, "QUIT") => "221 bye",
            (false, _) => "250 ok",
        };
        write!(stream, "{reply}\r\n").ok()?;
    }
}
