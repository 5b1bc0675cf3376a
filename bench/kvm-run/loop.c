/* The least that running a guest to its next exit costs: KVM_RUN again and again, and nothing else. */
#include <sys/ioctl.h>

#define KVM_RUN 0xae80

/* How many of `count` runs came back with a reason. */
long run(int vcpu, long count)
{
	long done = 0;

	for (long i = 0; i < count; i++)
		done += ioctl(vcpu, KVM_RUN, 0) == 0;
	return done;
}
