"""Which torque swings a pendulum up in a given time with the least effort?

The best torque obeys a boundary value problem (Pontryagin's principle): the pendulum's two states and two costates, with
the angle and its rate known at both ends and nothing known of the costates. `solve_boundary_value` takes the equations as a
Python function, finds the nodes itself, and says how accurate the answer is. Shorter times are harder; each solution is the
guess for the next. In the end the torque found is given to an ordinary simulation, which must arrive upright.
"""

import numpy as np

import dynident as di
from dynident.maths import cos, sin


def rate(t, y):
    angle, speed, p_angle, p_speed = y
    torque = -p_speed  # minimises torque^2/2 + p_angle*angle' + p_speed*speed'
    return [speed, -sin(angle) + torque, p_speed * cos(angle), -p_angle]


def hanging_then_upright(begin, end):
    return [begin.angle, begin.speed, end.angle - np.pi, end.speed]


def straight_up(t):
    return [np.pi * t / 8, np.pi / 8, 0, 0]


guess = straight_up
for duration in (8.0, 6.0, 4.0, 3.0):
    solution = di.solve_bvp(rate, hanging_then_upright, [0, duration], guess,
                                       states=["angle", "speed", "p_angle", "p_speed"], tolerance=1e-8)
    assert solution.converged, solution.status
    time = np.linspace(0, duration, 4001)
    torque = -solution(time)[:, 3]
    effort = duration * np.mean(torque**2) / 2
    print(f"{duration:g} s: largest torque {np.max(np.abs(torque)):.3f}, effort {effort:.3f}. {solution.status}")

    def guess(t, last=solution):  # the same motion, in less time
        return last(min(t * 4 / 3, last.time[-1]))

print(solution)
pendulum = di.EquationModel(states={"angle": "speed", "speed": "-sin(angle) + torque"}, inputs=["torque"])
drive = di.Experiment(time, inputs={"torque": torque}, hold={"torque": "linear"}, initial={"angle": 0, "speed": 0})
arrived = di.simulate(pendulum, {}, drive).states
print(f"Simulated with this torque the pendulum ends at {arrived['angle'][-1]:.5f} rad (pi is {np.pi:.5f}) "
      f"with {arrived['speed'][-1]:.5f} rad/s.")
