-- What a quota's subject has used was summed from its entries for each charge that names it: a second for a member with a
-- million of them. A quota now remembers the sum for one window, up to one entry; what was posted since is added when it is
-- asked for, and the remembered sum moves on now and then.
--
-- Whoever writes entries need not know of it, so older servers may go on beside this. A quota that remembers nothing yet
-- (counted_from is null) is summed from its entries once, as before; so the columns need no values for the entries there are.
-- Sums over all time are the ones that may take long; the next migration makes them in advance.

alter table quotas
    -- The first instant of the window that was counted, in the account's time zone.
    add column counted_from timestamptz,
    -- The use booked in that window by entries up to counted_to.
    add column counted numeric(30, 6) not null default 0,
    add column counted_to bigint not null default 0;
