//! The guard on outgoing connections. A webhook's URL comes from an agent, and the relay stands where that agent may not:
//! next to the cloud's metadata service, say, or in the company's network. So the relay connects to public addresses
//! only, unless it was told otherwise.
//!
//! What is judged is the address that the connection is made to, after the name was resolved and for each connection
//! anew: a name that leads elsewhere in the next moment gains nothing by it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use url::Host;

/// How many names are resolved at once. The system's resolver cannot be cut off: a name whose servers are silent keeps
/// its thread for half a minute.
const LOOKUPS_MAX: usize = 256;
/// The stack of a thread that resolves one name.
const LOOKUP_STACK: usize = 512 * 1024;
/// How many addresses of a name are tried, and for how long each.
const ADDRESSES_MAX: usize = 4;
const CONNECT_MAX: Duration = Duration::from_secs(5);

static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// Connects to a host, at a public address unless `private_too`. The error is for the operator.
pub(super) async fn connect(host: Host<&str>, port: u16, private_too: bool) -> Result<TcpStream, String> {
    let found = match host {
        Host::Ipv4(ip) => vec![SocketAddr::new(ip.into(), port)],
        Host::Ipv6(ip) => vec![SocketAddr::new(ip.into(), port)],
        Host::Domain(name) => resolve(name.to_owned(), port).await?,
    };
    let Some(first) = found.first() else {
        return Err("the name of the host leads to no address".to_owned());
    };
    let allowed = found.iter().filter(|address| private_too || is_public(address.ip()));
    let mut reason = format!("refused: {} is no public address", first.ip());
    for address in allowed.take(ADDRESSES_MAX) {
        match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => reason = format!("cannot connect: {}", error.kind()),
            Err(_) => reason = format!("cannot connect within {CONNECT_MAX:?}"),
        }
    }
    Err(reason)
}

/// The addresses of a name. Resolving blocks, on a thread of its own: the threads of the runtime for what blocks are few
/// and read the data file, and a few silent name servers would hold them all.
async fn resolve(name: String, port: u16) -> Result<Vec<SocketAddr>, String> {
    let permit = LOOKUPS.clone().acquire_owned().await.map_err(|error| error.to_string())?;
    let (reply, answer) = oneshot::channel();
    let lookup = move || {
        let _permit = permit;
        let found: io::Result<Vec<SocketAddr>> = (&*name, port).to_socket_addrs().map(Iterator::collect);
        // Whoever asked may have run out of patience.
        let _ = reply.send(found);
    };
    let thread = std::thread::Builder::new().name("lookup".to_owned()).stack_size(LOOKUP_STACK).spawn(lookup);
    thread.map_err(|error| format!("cannot look up the host: {}", error.kind()))?;
    match answer.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) | Err(_) => Err("the name of the host cannot be resolved".to_owned()),
    }
}

/// Whether an address is one that anybody on the internet could reach.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Whether `ip` begins with the first `bits` of `net`.
fn within_v4(ip: Ipv4Addr, net: [u8; 4], bits: u32) -> bool {
    (ip.to_bits() ^ u32::from_be_bytes(net)) >> (32 - bits) == 0
}

fn within_v6(ip: Ipv6Addr, net: Ipv6Addr, bits: u32) -> bool {
    (ip.to_bits() ^ net.to_bits()) >> (128 - bits) == 0
}

/// The IANA registry of special-purpose addresses.
const SPECIAL_V4: [([u8; 4], u32); 17] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // shared by the customers of a provider (CGNAT)
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, and the metadata services of clouds
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 31, 196, 0], 24), // AS112
    ([192, 52, 193, 0], 24), // AMT
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// What is special inside `2000::/3`, beyond which no address is public.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: leads to an IPv4 address
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(net, bits)| within_v4(ip, *net, *bits))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    // Both lead to the IPv4 address in their last 32 bits: a mapped one, and one that a NAT64 translates.
    let mapped = within_v6(ip, Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
    let translated = within_v6(ip, Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
    if mapped || translated {
        let [.., a, b, c, d] = ip.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    let global = within_v6(ip, Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
    global && !SPECIAL_V6.iter().any(|(net, bits)| within_v6(ip, *net, *bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_anybody_could_reach_are_public() {
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::808:808",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip.parse().expect(ip)), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(is_public(ip.parse().expect(ip)), "{ip}");
        }
    }

    #[tokio::test]
    async fn a_private_address_is_refused_however_it_is_written() {
        for url in
            ["http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::1]/", "http://[::ffff:7f00:1]/"]
        {
            let url = url::Url::parse(url).expect("a URL");
            let host = url.host().expect("a host");
            let error = connect(host, 9, false).await.expect_err("refused");
            assert!(error.starts_with("refused: "), "{url}: {error}");
        }
        let error = connect(Host::Domain("localhost"), 9, false).await.expect_err("refused");
        assert!(error.starts_with("refused: "), "{error}");
        let error = connect(Host::Domain("localhost"), 9, true).await.expect_err("nobody listens");
        assert!(error.starts_with("cannot connect: "), "{error}");
    }
}
