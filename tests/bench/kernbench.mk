# SPDX-License-Identifier: GPL-2.0
# In the guest: what the job kernbench builds, each file by the flags of its kernel.

objects := $(patsubst %.i,%.o,$(wildcard *.i))

all: $(objects)

%.o: %.i
	gcc @$*.flags -w -c -o $@ $<

clean:
	rm -f $(objects)

.PHONY: all clean
