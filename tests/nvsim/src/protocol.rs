//! What goes over the server's socket: one packet a request, one packet an answer.
//!
//! The socket is `SOCK_SEQPACKET`, so a packet is a message and a hang-up is seen as one. Numbers
//! are little-endian; a text is its length in 32 bits and its bytes. A storm opens thousands of
//! contexts a second beside the program under test, so no general format is parsed here.

/// The longest packet either side sends: a full list of 4,000 numbers and room to spare.
pub const PACKET_BYTES_MAX: usize = 64 * 1024;

/// Stands for "no particular GPU" in a call.
pub const NO_GPU: u32 = u32::MAX;

/// A packet that follows no form of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(&'static str);

/// How a process uses the GPU that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Whether a channel exists. Without one and without memory the process is a mere monitor.
    pub channel: bool,
    /// Share of the time in which its kernels run, in percent.
    pub busy_percent: u32,
    /// Share of the time in which it moves device memory, in percent.
    pub memory_busy_percent: u32,
}

/// What a connection may ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Make this connection a device object on a GPU, held until its last descriptor is closed.
    Open {
        /// The GPU's index.
        gpu: u32,
        /// What is allocated along with it.
        usage: Use,
    },
    /// Change what the connection's device object uses.
    Use(Use),
    /// An NVML call, by its symbol.
    Call {
        /// The symbol that the client called.
        symbol: String,
        /// The device's index, or [`NO_GPU`].
        gpu: u32,
        /// Its arguments, in the order of the C function.
        arguments: Vec<u64>,
        /// A text argument, such as a UUID.
        text: String,
    },
    /// A fault, as the words of [`crate::fault`].
    Fault(Vec<String>),
}

/// What the server says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// An `nvmlReturn_t`; 0 is success.
    pub code: u32,
    /// The numbers that the call returns.
    pub numbers: Vec<u64>,
    /// The text that it returns.
    pub text: String,
}

impl Answer {
    /// Success with these numbers.
    #[must_use]
    pub const fn of(numbers: Vec<u64>) -> Self {
        Self { code: 0, numbers, text: String::new() }
    }

    /// Success with this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { code: 0, numbers: Vec::new(), text: text.into() }
    }

    /// Nothing but a return code.
    #[must_use]
    pub const fn code(code: u32) -> Self {
        Self { code, numbers: Vec::new(), text: String::new() }
    }

    /// The packet of this answer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(12 + self.text.len() + 8 * self.numbers.len());
        put_u32(&mut packet, self.code);
        put_numbers(&mut packet, &self.numbers);
        put_text(&mut packet, &self.text);
        packet
    }

    /// The answer in a packet.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let mut rest = packet;
        Ok(Self {
            code: take_u32(&mut rest)?,
            numbers: take_numbers(&mut rest)?,
            text: take_text(&mut rest)?,
        })
    }
}

impl Request {
    /// The packet of this request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(64);
        match self {
            Self::Open { gpu, usage } => {
                packet.push(1);
                put_u32(&mut packet, *gpu);
                put_use(&mut packet, *usage);
            }
            Self::Use(usage) => {
                packet.push(2);
                put_use(&mut packet, *usage);
            }
            Self::Call { symbol, gpu, arguments, text } => {
                packet.push(3);
                put_text(&mut packet, symbol);
                put_u32(&mut packet, *gpu);
                put_numbers(&mut packet, arguments);
                put_text(&mut packet, text);
            }
            Self::Fault(words) => {
                packet.push(4);
                put_u32(&mut packet, length(words.len()));
                for word in words {
                    put_text(&mut packet, word);
                }
            }
        }
        packet
    }

    /// The request in a packet.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let (kind, mut rest) = packet.split_first().ok_or(Malformed("empty"))?;
        let rest = &mut rest;
        match kind {
            1 => Ok(Self::Open { gpu: take_u32(rest)?, usage: take_use(rest)? }),
            2 => Ok(Self::Use(take_use(rest)?)),
            3 => Ok(Self::Call {
                symbol: take_text(rest)?,
                gpu: take_u32(rest)?,
                arguments: take_numbers(rest)?,
                text: take_text(rest)?,
            }),
            4 => {
                let count = take_u32(rest)?;
                (0..count).map(|_| take_text(rest)).collect::<Result<_, _>>().map(Self::Fault)
            }
            _ => Err(Malformed("a kind that this version does not know")),
        }
    }
}

fn length(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn put_u32(packet: &mut Vec<u8>, value: u32) {
    packet.extend_from_slice(&value.to_le_bytes());
}

fn put_text(packet: &mut Vec<u8>, text: &str) {
    put_u32(packet, length(text.len()));
    packet.extend_from_slice(text.as_bytes());
}

fn put_numbers(packet: &mut Vec<u8>, numbers: &[u64]) {
    put_u32(packet, length(numbers.len()));
    for number in numbers {
        packet.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_use(packet: &mut Vec<u8>, usage: Use) {
    packet.extend_from_slice(&usage.memory_bytes.to_le_bytes());
    packet.push(u8::from(usage.channel));
    put_u32(packet, usage.busy_percent);
    put_u32(packet, usage.memory_busy_percent);
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, left) = rest.split_at_checked(count).ok_or(Malformed("ends too early"))?;
    *rest = left;
    Ok(taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, Malformed> {
    let bytes = take(rest, 4)?;
    bytes.try_into().map(u32::from_le_bytes).map_err(|_| Malformed("ends too early"))
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let bytes = take(rest, 8)?;
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Malformed("ends too early"))
}

fn take_length(rest: &mut &[u8]) -> Result<usize, Malformed> {
    usize::try_from(take_u32(rest)?).map_err(|_| Malformed("longer than memory"))
}

fn take_text(rest: &mut &[u8]) -> Result<String, Malformed> {
    let count = take_length(rest)?;
    let bytes = take(rest, count)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text that is not UTF-8"))
}

fn take_numbers(rest: &mut &[u8]) -> Result<Vec<u64>, Malformed> {
    let count = take_length(rest)?;
    if count > PACKET_BYTES_MAX {
        return Err(Malformed("more numbers than a packet holds"));
    }
    (0..count).map(|_| take_u64(rest)).collect()
}

fn take_use(rest: &mut &[u8]) -> Result<Use, Malformed> {
    let memory_bytes = take_u64(rest)?;
    let channel = take(rest, 1)? != [0];
    let (busy_percent, memory_busy_percent) = (take_u32(rest)?, take_u32(rest)?);
    Ok(Use { memory_bytes, channel, busy_percent, memory_busy_percent })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usages() -> impl Strategy<Value = Use> {
        (any::<u64>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
            |(memory_bytes, channel, busy_percent, memory_busy_percent)| Use {
                memory_bytes,
                channel,
                busy_percent,
                memory_busy_percent,
            },
        )
    }

    fn requests() -> impl Strategy<Value = Request> {
        prop_oneof![
            (any::<u32>(), usages()).prop_map(|(gpu, usage)| Request::Open { gpu, usage }),
            usages().prop_map(Request::Use),
            (".*", any::<u32>(), proptest::collection::vec(any::<u64>(), 0..9), ".*").prop_map(
                |(symbol, gpu, arguments, text)| Request::Call { symbol, gpu, arguments, text }
            ),
            proptest::collection::vec(".*", 0..5).prop_map(Request::Fault),
        ]
    }

    proptest! {
        #[test]
        fn a_request_comes_out_as_it_went_in(request in requests()) {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn an_answer_comes_out_as_it_went_in(
            code: u32, numbers in proptest::collection::vec(any::<u64>(), 0..99), text in ".*"
        ) {
            let answer = Answer { code, numbers, text };
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }

        #[test]
        fn any_bytes_give_a_request_or_a_named_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert!(request.encode().len() <= bytes.len());
            }
        }
    }
}
