//! One keep-alive connection and as much of HTTP/1.1 as an honest server needs: status, length, body.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::ops::Range;

/// Enough for an answer to one charge; longer answers make it grow.
const INPUT_BYTES: usize = 8 * 1024;

/// Bytes on their way out and in. No request is sent before the last one is answered.
#[derive(Debug)]
pub struct Link<S> {
    stream: S,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    filled: usize,
    head: Option<Head>,
}

/// A whole answer, in the link's input.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    body: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    body_at: usize,
    body_bytes: usize,
}

impl<S: Read + Write> Link<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, output: Vec::new(), sent: 0, input: vec![0; INPUT_BYTES], filled: 0, head: None }
    }

    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Begins a request; `render` appends its bytes.
    pub fn ask<T>(&mut self, render: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.output.clear();
        (self.sent, self.filled, self.head) = (0, 0, None);
        render(&mut self.output)
    }

    /// Sends as much as the socket takes.
    pub fn send(&mut self) -> Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has come. A read that fills less than its room has emptied the socket, so the next bytes bring a
    /// new event and the call that would say "nothing there" is spared.
    pub fn receive(&mut self) -> Result<Option<Answer>> {
        loop {
            if self.filled == self.input.len() {
                self.input.resize(self.filled * 2, 0);
            }
            let room = self.input.len() - self.filled;
            let bytes = match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            self.filled += bytes;
            if let Some(answer) = self.answer()? {
                return Ok(Some(answer));
            }
            if bytes < room {
                return Ok(None);
            }
        }
    }

    pub fn body(&self, answer: &Answer) -> &[u8] {
        self.input.get(answer.body.clone()).unwrap_or_default()
    }

    fn answer(&mut self) -> Result<Option<Answer>> {
        if self.head.is_none() {
            self.head = head(&self.input[..self.filled])?;
        }
        let Some(Head { status, body_at, body_bytes }) = self.head else { return Ok(None) };
        let end = body_at.saturating_add(body_bytes);
        Ok((self.filled >= end).then_some(Answer { status, body: body_at..end }))
    }
}

/// Reads the head, once it is whole.
fn head(input: &[u8]) -> Result<Option<Head>> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let bad = |what: &str| Error::new(ErrorKind::InvalidData, format!("the answer has {what}"));
    let text = std::str::from_utf8(&input[..end]).map_err(|_| bad("a head that is not text"))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    Ok(Some(Head {
        status: status.ok_or_else(|| bad("no status"))?,
        body_at: end + 4,
        body_bytes: length.ok_or_else(|| bad("no length"))?,
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read, Result, Write};

    use super::Link;

    /// Gives its pieces one by one, and takes everything.
    struct Pieces(Vec<Cursor<Vec<u8>>>);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            match self.0.first_mut() {
                None => Err(std::io::ErrorKind::WouldBlock.into()),
                Some(piece) => {
                    let bytes = piece.read(out)?;
                    if piece.position() == piece.get_ref().len() as u64 {
                        self.0.remove(0);
                    }
                    Ok(bytes)
                }
            }
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_in_pieces_is_put_together() {
        let long = "x".repeat(20_000);
        let whole = format!("HTTP/1.1 201 Created\r\nContent-Type: a\r\ncontent-length: 20000\r\n\r\n{long}");
        let (first, second) = whole.split_at(30);
        let pieces = [first, second].map(|piece| Cursor::new(piece.as_bytes().to_vec()));
        let mut link = Link::new(Pieces(pieces.into()));
        link.ask(|out| out.extend_from_slice(b"GET"));
        link.send().unwrap();
        assert!(link.receive().unwrap().is_none());
        let answer = link.receive().unwrap().unwrap();
        assert_eq!((answer.status, link.body(&answer)), (201, long.as_bytes()));
    }

    #[test]
    fn an_answer_without_a_length_is_refused() {
        let pieces = vec![Cursor::new(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())];
        let mut link = Link::new(Pieces(pieces));
        link.ask(|_| ());
        assert!(link.receive().is_err());
    }
}
