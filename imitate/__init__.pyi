from .aggrevated.learner import AggreVaTeD
from .aggrevated.loki import LOKI
from .aggrevated.trial import Trial
from .aggrevated.variants.aggrevate import AggreVaTe
from .algorithms import ALGORITHMS, Learner
from .compare import Comparison
from .configs.a2c import A2CConfig
from .configs.aggrevated import AggreVaTeDConfig, TrialConfig
from .configs.bc import BCConfig
from .configs.dac import DACConfig
from .configs.dagger import DAggerConfig
from .configs.dqn import DQNConfig
from .configs.gaifo import GAIfOConfig
from .configs.gail import GAILConfig
from .configs.guided import GuidedConfig
from .configs.iq import IQConfig
from .configs.loki import LOKIConfig
from .configs.ppo import PPOConfig
from .configs.qdagger import QDaggerConfig
from .configs.reinforce import REINFORCEConfig
from .configs.sac import SACConfig
from .configs.sqil import SQILConfig
from .configs.td3 import TD3Config
from .configs.td3bc import TD3BCConfig
from .configs.tqc import TQCConfig
from .configs.variants import VariantConfig
from .datasets import DemoInfo, DemoReader, DemoWriter, InputError, Policy, Trajectory, collect
from .datasets.evaluation import Evaluation, evaluate
from .envs.trust import trust
from .experts import Expert, load_expert
from .imitators.bc import BC
from .imitators.dac import DAC
from .imitators.dagger import DAgger
from .imitators.gaifo import GAIfO
from .imitators.gail import GAIL
from .imitators.guided.hand_over import HandOver
from .imitators.iq import IQ
from .imitators.learned_reward import LearnedReward, load_reward
from .imitators.qdagger import QDagger
from .imitators.sqil import SQIL
from .imitators.td3bc import TD3BC
from .improvement import improve
from .media.video import record_video
from .nn.numpy_policy import NumpyPolicy
from .nn.policy import ActorPolicy
from .nn.stored_policy import load_policy, save_policy
from .rl.a2c import A2C
from .rl.dqn import DQN
from .rl.ppo import PPO
from .rl.reinforce import REINFORCE
from .rl.sac import SAC
from .rl.td3 import TD3
from .rl.tqc import TQC
from .training.execute import execute
from .training.experiment import Experiment

__all__ = [
    "A2C",
    "ALGORITHMS",
    "BC",
    "DAC",
    "DQN",
    "GAIL",
    "IQ",
    "LOKI",
    "PPO",
    "REINFORCE",
    "SAC",
    "SQIL",
    "TD3",
    "TD3BC",
    "TQC",
    "A2CConfig",
    "ActorPolicy",
    "AggreVaTe",
    "AggreVaTeD",
    "AggreVaTeDConfig",
    "BCConfig",
    "Comparison",
    "DACConfig",
    "DAgger",
    "DAggerConfig",
    "DQNConfig",
    "DemoInfo",
    "DemoReader",
    "DemoWriter",
    "Evaluation",
    "Experiment",
    "Expert",
    "GAILConfig",
    "GAIfO",
    "GAIfOConfig",
    "GuidedConfig",
    "HandOver",
    "IQConfig",
    "InputError",
    "LOKIConfig",
    "LearnedReward",
    "Learner",
    "NumpyPolicy",
    "PPOConfig",
    "Policy",
    "QDagger",
    "QDaggerConfig",
    "REINFORCEConfig",
    "SACConfig",
    "SQILConfig",
    "TD3BCConfig",
    "TD3Config",
    "TQCConfig",
    "Trajectory",
    "Trial",
    "TrialConfig",
    "VariantConfig",
    "collect",
    "evaluate",
    "execute",
    "improve",
    "load_expert",
    "load_policy",
    "load_reward",
    "record_video",
    "save_policy",
    "trust",
]
