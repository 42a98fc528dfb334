"""Every command of the host arrives, whatever ends in the guest meanwhile.

Topology: a guest.  Cause: each command leaves processes behind that end while
the next one's line comes in.  Pass: every command is carried out and answered.
"""

COMMANDS = 100


def test_no_line_is_lost(guest):
    padding = "x" * 200  # a longer line takes longer to come in
    for i in range(COMMANDS):
        assert guest.run("for j in 1 2 3 4 5 6 7 8; do ( sleep 0.0$j & ); done; "
                         f": {padding}; echo {i}", timeout=20) == f"{i}\n"
