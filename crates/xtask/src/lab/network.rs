//! Which packet goes by which line. Pure, like the lines.
//!
//! ```text
//!                       ┌── up ◄── site 1          store: place 0, 10.198.0.1
//!   store ◄──► hub ◄────┤                          sites: place 1.., 10.198.0.2..
//!                       └── down ► site 1, and so on for each site
//! ```
//! The hub stands where the store is: every site has a line to it, with a delay, a rate and a loss of its own in either
//! direction, and the store reaches the hub at once. From site to site it is two delays, by way of the store's place.

use super::line::{Line, Packet, Quality};
use std::net::Ipv4Addr;
use std::time::Instant;

/// A sender or receiver: the store is 0, the sites count from 1.
pub(super) type Place = usize;

/// The place of the store.
pub(super) const STORE: Place = 0;

/// The address of a place. There are fewer places than numbers in the last part: `options.rs` bounds them.
pub(super) fn address(place: Place) -> Ipv4Addr {
    Ipv4Addr::new(10, 198, 0, place as u8 + 1)
}

/// All lines of a lab.
pub(super) struct Network {
    /// The quality that they were made with.
    quality: Quality,
    sites: Vec<Site>,
}

struct Site {
    up: Line,
    down: Line,
}

/// A direction of a site's line: from it, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// A change to a site's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Nothing passes, in one direction or, with none, in both.
    Cut(Option<Direction>),
    /// So many of 100 packets are lost, in either direction.
    Loss(f64),
    /// So many bits go in in a second, in either direction.
    Rate(f64),
    /// It is as it was made.
    Heal,
}

impl Network {
    pub(super) fn new(sites: usize, quality: &Quality) -> Self {
        let line = |seed| Line::new(quality.clone(), seed);
        let site = |site: u64| Site { up: line(2 * site), down: line(2 * site + 1) };
        Self { quality: quality.clone(), sites: (0..sites as u64).map(site).collect() }
    }

    /// How many sites there are.
    pub(super) fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Changes the line of a site, counted from 1. It must be one that there is.
    pub(super) fn change(&mut self, site: Place, change: Change) {
        let Site { up, down } = &mut self.sites[site - 1];
        match change {
            Change::Cut(Some(Direction::Up)) => up.set_cut(true),
            Change::Cut(Some(Direction::Down)) => down.set_cut(true),
            Change::Cut(None) => [up, down].into_iter().for_each(|line| line.set_cut(true)),
            Change::Loss(percent) => [up, down].into_iter().for_each(|line| line.set_loss(percent)),
            Change::Rate(bits_per_s) => [up, down].into_iter().for_each(|line| line.set_rate(Some(bits_per_s))),
            Change::Heal => {
                for line in [up, down] {
                    line.set_cut(false);
                    line.set_loss(self.quality.loss_percent);
                    line.set_rate(self.quality.bits_per_s);
                }
            }
        }
    }

    /// A place sends a packet. One that is for none of the others goes nowhere.
    pub(super) fn send(&mut self, now: Instant, from: Place, packet: Packet) {
        match self.destination(&packet) {
            Some(to) if to == from => {}
            Some(to) if from == STORE => self.sites[to - 1].down.push(now, packet),
            Some(_) => self.sites[from - 1].up.push(now, packet),
            None => {}
        }
    }

    /// A packet that has arrived by now, and where. To be called until there is none.
    pub(super) fn deliver(&mut self, now: Instant) -> Option<(Place, Packet)> {
        (0..self.sites.len()).find_map(|site| self.arrive_at_hub(site, now).or_else(|| self.arrive_at_site(site, now)))
    }

    /// When to deliver next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.sites.iter().flat_map(|site| [site.up.next_due(), site.down.next_due()]).flatten().min()
    }

    fn arrive_at_hub(&mut self, site: usize, now: Instant) -> Option<(Place, Packet)> {
        while let Some(arrival) = self.sites[site].up.pop(now) {
            match self.destination(&arrival.packet) {
                Some(STORE) => return Some((STORE, arrival.packet)),
                // It continues at the time it was due, so that being late once is not added to being late twice.
                Some(other) => self.sites[other - 1].down.push(arrival.due, arrival.packet),
                None => {}
            }
        }
        None
    }

    fn arrive_at_site(&mut self, site: usize, now: Instant) -> Option<(Place, Packet)> {
        self.sites[site].down.pop(now).map(|arrival| (site + 1, arrival.packet))
    }

    /// The place that an IPv4 packet is for. Devices also send packets of their own, such as IPv6's search for routers.
    fn destination(&self, packet: &[u8]) -> Option<Place> {
        let is_ipv4 = packet.first()? >> 4 == 4;
        let to = packet.get(16..20)?;
        (STORE..=self.sites.len()).find(|&place| is_ipv4 && address(place).octets() == to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    fn network() -> Network {
        Network::new(2, &Quality { one_way: 10 * MS, bits_per_s: None, loss_percent: 0.0 })
    }

    fn packet_to(address: Ipv4Addr) -> Packet {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&address.octets());
        packet.into()
    }

    /// Sends one packet and says where it arrives, and after how many milliseconds.
    fn way(network: &mut Network, from: Place, to: Ipv4Addr) -> Option<(Place, u32)> {
        let start = Instant::now();
        network.send(start, from, packet_to(to));
        (0..100).find_map(|ms| network.deliver(start + ms * MS).map(|(place, _)| (place, ms)))
    }

    #[test]
    fn a_packet_goes_to_the_place_of_its_address() {
        let mut network = network();
        assert_eq!(way(&mut network, 0, address(1)), Some((1, 10)));
        assert_eq!(way(&mut network, 0, address(2)), Some((2, 10)));
        assert_eq!(way(&mut network, 1, address(0)), Some((0, 10)));
        assert_eq!(way(&mut network, 1, address(2)), Some((2, 20)), "by way of the store's place");
        assert_eq!(network.next_due(), None);
    }

    #[test]
    fn a_packet_for_an_unknown_address_goes_nowhere() {
        let mut network = network();
        assert_eq!(way(&mut network, 0, address(3)), None);
        assert_eq!(way(&mut network, 0, address(0)), None);
        assert_eq!(way(&mut network, 1, Ipv4Addr::BROADCAST), None);
        let now = Instant::now();
        for packet in [&[][..], &[0x45], &[0x60; 40]] {
            network.send(now, 1, packet.into());
        }
        assert_eq!(network.next_due(), None);
    }

    #[test]
    fn a_site_that_is_cut_neither_sends_nor_receives() {
        let mut network = network();
        network.change(1, Change::Cut(None));
        assert_eq!(way(&mut network, 0, address(1)), None);
        assert_eq!(way(&mut network, 1, address(0)), None);
        assert_eq!(way(&mut network, 2, address(1)), None);
        assert_eq!(way(&mut network, 2, address(0)), Some((0, 10)), "others go on");
        network.change(1, Change::Heal);
        assert_eq!(way(&mut network, 2, address(1)), Some((1, 20)));
    }

    #[test]
    fn a_site_may_be_cut_in_one_direction() {
        let mut network = network();
        for (direction, sends, receives) in
            [(Direction::Up, None, Some((1, 10))), (Direction::Down, Some((0, 10)), None)]
        {
            network.change(1, Change::Cut(Some(direction)));
            assert_eq!(way(&mut network, 1, address(0)), sends, "{direction:?}");
            assert_eq!(way(&mut network, 0, address(1)), receives, "{direction:?}");
            network.change(1, Change::Heal);
        }
    }

    #[test]
    fn a_line_that_is_healed_is_as_it_was_made() {
        let mut network = network();
        network.change(1, Change::Loss(100.0));
        assert_eq!(way(&mut network, 1, address(0)), None);
        assert_eq!(way(&mut network, 2, address(0)), Some((0, 10)), "only that site's line");
        network.change(1, Change::Heal);
        // 20 bytes take 16 ms at 10 kbit/s.
        network.change(1, Change::Rate(10e3));
        assert_eq!(way(&mut network, 1, address(0)), Some((0, 26)));
        network.change(1, Change::Heal);
        assert_eq!(way(&mut network, 0, address(1)), Some((1, 10)));
    }
}
